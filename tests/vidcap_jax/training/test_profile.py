"""Traces of chosen steps."""

import jax.numpy as jnp
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.training import profile

NAMES = ('jax_default_matmul_precision', 'jax_debug_nans', 'jax_compilation_cache_dir')


def test_steps_of_a_profile():
  assert profile.parse_steps('') == range(0)
  assert profile.parse_steps('7') == range(7, 8)
  assert profile.parse_steps('10:13') == range(10, 13)
  for text in ('a', '3:', '5:5', '-1:2'):
    with pytest.raises(ConfigError, match='give FIRST:LAST'):
      profile.parse_steps(text)


def test_a_trace_of_chosen_steps(tmp_path):
  output: list[str] = []
  trace = profile.Trace(range(2, 4), range(6), tmp_path / 'profile', output.append)
  x = jnp.ones(3)
  for step in range(6):
    trace.before(step, x)
    assert (tmp_path / 'profile').exists() == (step >= 4)  # written when it ends
    x = x + 1
  trace.close()
  assert output == [f'trace of steps 2 to 3: {tmp_path / "profile"}']
  assert list((tmp_path / 'profile').rglob('*.xplane.pb'))


def test_a_trace_that_is_cut_short_is_written(tmp_path):
  trace = profile.Trace(range(2, 40), range(50), tmp_path / 'profile', print)
  for step in range(4):
    trace.before(step, jnp.ones(3) + step)
  trace.close()
  assert list((tmp_path / 'profile').rglob('*.xplane.pb'))


@pytest.mark.parametrize(
  ('computed', 'these'),
  [(range(4, 16), '4 to 5'), (range(5), '2 to 4'), (range(2), 'none'), (range(6, 6), 'none')],
)
def test_steps_of_a_trace_that_are_not_computed(computed, these, tmp_path):
  output: list[str] = []
  profile.Trace(range(2, 6), computed, tmp_path / 'profile', output.append)
  assert output == [f'of steps 2 to 5 that --profile asks for, this run computes {these}']


def test_nothing_is_said_of_traces_that_are_whole(tmp_path):
  output: list[str] = []
  profile.Trace(range(0), range(3, 9), tmp_path / 'profile', output.append)
  profile.Trace(range(3, 9), range(3, 9), tmp_path / 'profile', output.append)
  assert output == []
