"""A program for each shape, and what is told of it."""

import functools
import re

import jax
import jax.numpy as jnp
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.training import compiled
from vidcap_jax.training.compiled import compile_by_shape

SIZE = 256  # 256 KiB of float32


def made(donate: bool):
  output: list[str] = []

  @functools.partial(jax.jit, donate_argnums=0 if donate else ())
  def step(state, batch):
    def body(carry, x):
      return jnp.tanh(carry @ state['w'] + x), None

    last, _ = jax.lax.scan(body, batch['x'][0], batch['x'])
    return {'w': state['w'] + last.T @ last}, last.sum()

  return compile_by_shape(step, output.append), output


def arguments(length: int):
  return {'w': jnp.ones((SIZE, SIZE))}, {'x': jnp.ones((length, 4, SIZE))}


def test_one_program_for_each_shape():
  step, output = made(donate=True)
  results = [float(step(*arguments(length))[1]) for length in (3, 3, 5, 3)]
  assert results[0] == results[1] == results[3]
  assert [line for line in output if line.startswith('compiling')] == [
    'compiling a step: this takes a while',
    'compiling another length',
  ]
  assert len(output) == 4


def test_operations_of_every_round_and_memory_are_logged():
  step, output = made(donate=True)
  state, batch = arguments(40)
  step(state, batch)
  assert state['w'].is_deleted()
  gflop = (40 * 2 * 4 * SIZE**2 + 2 * 4 * SIZE**2) / 1e9
  found = float(re.search(r'takes (\S+) GFLOP', output[1])[1])
  assert gflop < found < 1.1 * gflop
  assert 'MiB of arguments' in output[1]
  assert 'held twice' not in output[1]


def test_a_state_that_is_not_donated_is_logged():
  step, output = made(donate=False)
  step(*arguments(3))
  assert '0 MiB of the training state is held twice' in output[1]


def test_a_device_that_reports_its_memory(monkeypatch):
  stats = {'bytes_limit': 2**24, 'bytes_in_use': 2**20}
  monkeypatch.setattr(compiled, 'device_memory', lambda: stats)
  step, output = made(donate=True)
  step(*arguments(3))
  needed = float(re.search(r'fits: (\S+) of 16 MiB', output[-1])[1])
  assert 1 <= needed < 3  # other arrays are held besides the arguments


def test_a_step_that_does_not_fit_is_not_run(monkeypatch):
  monkeypatch.setattr(compiled, 'device_memory', lambda: {'bytes_limit': 2**17})
  step, _ = made(donate=True)
  given = arguments(3)
  with pytest.raises(ConfigError, match='does not fit.*of 0 MiB.*batch_size'):
    step(*given)
  assert not given[0]['w'].is_deleted()


class _Refused:
  """A program that the compiler refuses, as that of TPUs does for lack of memory."""

  def __init__(self, reason):
    self.reason = reason

  def trace(self, *arguments):
    return self

  lower = trace

  def compile(self):
    raise jax.errors.JaxRuntimeError(self.reason)


def test_a_compiler_that_finds_too_little_memory():
  reason = 'RESOURCE_EXHAUSTED: Used 17.5G of 15.75G hbm'
  with pytest.raises(ConfigError, match=r'17\.5G of 15\.75G.*batch_size'):
    compile_by_shape(_Refused(reason), print)(*arguments(3))
  with pytest.raises(jax.errors.JaxRuntimeError, match='INTERNAL'):
    compile_by_shape(_Refused('INTERNAL: a bug'), print)(*arguments(3))


def test_operations_are_not_logged_where_they_cannot_be_counted(monkeypatch):
  def cannot(*_):
    raise RuntimeError('no backend cpu')

  monkeypatch.setattr(compiled, 'cost_of_traced', cannot)
  step, output = made(donate=True)
  step(*arguments(3))
  assert 'GFLOP' not in output[1]
  assert 'MiB of arguments' in output[1]
