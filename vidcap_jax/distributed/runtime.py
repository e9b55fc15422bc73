"""Settings of JAX: precision of matrix products, NaN checks, the compilation cache."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from vidcap_jax.distributed import compilation_cache
from vidcap_jax.errors import ConfigError

PRECISIONS = ('default', 'high', 'highest')


def apply(settings: Mapping) -> None:
  """Applies ``config.runtime`` to this process; {} stands for the defaults of early configs.

  Raises:
    ConfigError: an unknown precision, or a folder for compiled programs that can't be made.
  """
  jax.config.update('jax_default_matmul_precision', precision_of(settings))
  # Settings that are off here keep the values of JAX's environment variables.
  if settings.get('check_nans', False):
    jax.config.update('jax_debug_nans', True)
  compilation_cache.use(settings.get('compilation_cache', ''))


@contextlib.contextmanager
def applied(settings: Mapping) -> Iterator[None]:
  """``apply``, but precision and NaN checks are afterwards as before, in all threads."""
  names = ('jax_default_matmul_precision', 'jax_debug_nans')
  before = {name: jax.config.values[name] for name in names}
  try:
    apply(settings)
    yield
  finally:
    for name, value in before.items():
      jax.config.update(name, value)


def settings_of_checkpoint(config: Mapping) -> dict[str, Any]:
  """The ``runtime`` section of a checkpoint's config, for use on another machine.

  A folder of compiled programs that it names is one of the machine that trained it: the default
  folder takes its place.
  """
  settings = dict(config.get('runtime', {}))
  cache = settings.get('compilation_cache') and compilation_cache.AUTO
  return {**settings, 'compilation_cache': cache or ''}


def precision_of(settings: Mapping) -> str:
  """The precision of matrix products that the settings ask for; ConfigError for an unknown one."""
  precision = settings.get('matmul_precision', PRECISIONS[1])
  check_precision(precision)
  return precision


def check_precision(precision: str) -> None:
  """ConfigError for an unknown ``runtime.matmul_precision``."""
  if precision not in PRECISIONS:
    raise ConfigError(
      f'config.runtime.matmul_precision={precision!r} is not known; known: {", ".join(PRECISIONS)}'
    )
