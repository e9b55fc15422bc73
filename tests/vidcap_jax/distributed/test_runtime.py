"""Settings of JAX from config.runtime."""

import jax
import jax.numpy as jnp
import pytest

from configs import common
from vidcap_jax.distributed import runtime
from vidcap_jax.errors import ConfigError

NAMES = ('jax_default_matmul_precision', 'jax_debug_nans', 'jax_compilation_cache_dir')


@pytest.fixture(autouse=True)
def _restored():
  before = {name: getattr(jax.config, name) for name in NAMES}
  yield
  for name, value in before.items():
    jax.config.update(name, value)


def settings(**changes):
  section = common.base().runtime
  section.update(changes)
  return section


def test_settings_are_applied(tmp_path):
  folder = str(tmp_path / 'cache' / 'programs')
  runtime.apply(settings(compilation_cache=folder, check_nans=True, matmul_precision='highest'))
  assert [getattr(jax.config, name) for name in NAMES] == ['highest', True, folder]
  with pytest.raises(FloatingPointError):
    jax.jit(jnp.log)(-1.0)


def test_settings_that_are_off_stay_as_the_environment_has_them():
  before = [getattr(jax.config, name) for name in NAMES[1:]]
  runtime.apply(settings())
  assert [getattr(jax.config, name) for name in NAMES] == ['high', *before]


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'matmul_precision': 'best'}, "matmul_precision='best' .* default, high"),
    (
      {'compilation_cache': '/dev/null/x'},
      'runtime.compilation_cache=/dev/null/x: Not a directory',
    ),
  ],
)
def test_invalid_settings(change, message):
  with pytest.raises(ConfigError, match=message):
    runtime.apply(settings(**change))
