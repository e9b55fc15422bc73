"""A program for each shape, and what is told of it."""

import dataclasses
import functools
import re
import time

import jax
import jax.numpy as jnp
import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.training import compiled
from vidcap_jax.training.compiled import compile_by_shape
from vidcap_jax.training.ledger import WAIT_EVENT
from vidcap_jax.training.memory import bytes_per_device

SIZE = 256  # 256 KiB of float32


@pytest.fixture(scope='module')
def compiler():
  with compiled.make_compiler() as threads:
    yield threads


@pytest.fixture
def made(compiler):
  return functools.partial(make_step, compiler)


def make_step(compiler, donate: bool, upcoming=lambda *_: ()):
  output: list[str] = []

  @functools.partial(jax.jit, donate_argnums=0 if donate else ())
  def step(state, batch):
    def body(carry, x):
      return jnp.tanh(carry @ state['w'] + x), None

    last, _ = jax.lax.scan(body, batch['x'][0], batch['x'])
    return {'w': state['w'] + last.T @ last}, last.sum()

  return compile_by_shape(step, output.append, compiler, upcoming), output


def arguments(length: int):
  return {'w': jnp.ones((SIZE, SIZE))}, {'x': jnp.ones((length, 4, SIZE))}


def test_one_program_for_each_shape(made):
  step, output = made(donate=True)
  results = [float(step(*arguments(length))[1]) for length in (3, 3, 5, 3)]
  assert results[0] == results[1] == results[3]
  assert [line.split(':')[0] for line in output if line.startswith('compil')] == [
    'compiles 1 program to train',
    'compiling another step',
  ]
  assert len(output) == 4


def compilations(lengths):
  return {length: compiled.abstract(arguments(length)) for length in lengths}.values()


def test_what_comes_later_is_compiled_by_threads(made, compiler):
  """Once for each shape, and with the results that it has without."""
  alone, _ = made(donate=True)
  step, output = made(donate=True, upcoming=lambda *_: compilations((7, 4, 6)))
  waits: list[float] = []
  first = float(step(*arguments(7))[1])
  assert output[0].startswith('compiles 3 programs')
  compiler.submit(lambda: None).result()  # and so all that was handed in before
  while len(output) < 4:  # with several threads another may still compile
    step(*arguments(7))
    time.sleep(0.01)
  jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: waits.append(seconds) if name == WAIT_EVENT else None
  )
  results = [first, *(float(step(*arguments(n))[1]) for n in (4, 6, 4))]
  assert waits == []
  assert len(output) == 4
  assert results == [float(alone(*arguments(n))[1]) for n in (7, 4, 6, 4)]


def test_the_time_of_waiting_for_a_program_is_reported(made):
  waits: list[float] = []
  jax.monitoring.register_event_duration_secs_listener(
    lambda name, seconds, **_: waits.append(seconds) if name == WAIT_EVENT else None
  )
  step, _ = made(donate=True)
  step(*arguments(8))
  assert [seconds > 0 for seconds in waits] == [True]


def test_a_program_for_later_that_does_not_fit_ends_the_run_early(made, monkeypatch):
  most = bytes_per_device(compiled.abstract(arguments(9))) + 2**20
  monkeypatch.setattr(compiled, 'device_memory', lambda: {'bytes_limit': most})
  step, _ = made(donate=True, upcoming=lambda *_: compilations((9, 1000)))
  step(*arguments(9))

  def train_on():
    for _ in range(1000):
      step(*arguments(9))
      time.sleep(0.01)

  with pytest.raises(ConfigError, match='does not fit'):
    train_on()


@dataclasses.dataclass
class State:
  """A training state."""

  params: jax.Array


jax.tree_util.register_dataclass(State, ['params'], [])


@pytest.fixture
def behind():
  """A function of parameters and a batch, and how often it has been traced."""
  traces = []

  @jax.jit
  def decode(params, batch):
    traces.append(batch['x'].shape)
    return params * batch['x'].sum()

  batch = {'x': jnp.ones((4, SIZE)), 'video_index': jnp.arange(4)}
  return compiled.Behind(decode, 'validation', compiled.abstract(batch)), batch, traces


def first_step(compiler, function):
  """Takes a step in training with a function behind; returns the output and the step."""
  output: list[str] = []
  step = compile_by_shape(jax.jit(lambda s, b: b['x']), output.append, compiler, behind=[function])
  batch = {'x': jnp.ones(3)}
  step(State(jnp.ones(5)), batch)
  compiler.submit(lambda: None).result()
  return output, lambda: step(State(jnp.ones(5)), batch)


def test_validation_is_compiled_behind_the_first_step(compiler, behind, monkeypatch):
  monkeypatch.setattr(compiled, 'device_memory', lambda: {'bytes_limit': 2**24})
  function, batch, traces = behind
  output, step = first_step(compiler, function)
  assert float(function(jnp.ones(5), batch)[0]) == 4 * SIZE  # after it has been compiled
  step()
  assert traces == [(4, SIZE)]
  assert [line for line in output if 'validation takes' in line]
  assert [line for line in output if re.match(r'validation fits: \d+ of 16 MiB', line)]


def test_other_shapes_are_left_to_the_function(compiler, behind):
  function, batch, traces = behind
  first_step(compiler, function)
  longer = {'x': jnp.ones((6, SIZE)), 'video_index': jnp.arange(6)}
  assert float(function(jnp.ones(5), longer)[0]) == 6 * SIZE
  assert sorted(traces) == [(4, SIZE), (6, SIZE)]


def test_a_validation_before_the_first_step_is_left_to_the_function(behind):
  function, batch, _ = behind
  assert float(function(jnp.ones(5), batch)[0]) == 4 * SIZE


def test_a_validation_that_does_not_fit_ends_the_run_before_it(compiler, behind, monkeypatch):
  monkeypatch.setattr(compiled, 'device_memory', lambda: {'bytes_limit': 2000})
  function, batch, _ = behind

  def train():
    _, step = first_step(compiler, function)
    function(jnp.ones(5), batch)
    step()

  with pytest.raises(ConfigError, match=r'does not fit at a batch size of 4.*eval\.batch_size'):
    train()


def test_operations_of_every_round_and_memory_are_logged(made):
  step, output = made(donate=True)
  state, batch = arguments(40)
  step(state, batch)
  assert state['w'].is_deleted()
  gflop = (40 * 2 * 4 * SIZE**2 + 2 * 4 * SIZE**2) / 1e9
  found = float(re.search(r'takes (\S+) GFLOP', output[1])[1])
  assert gflop < found < 1.1 * gflop
  assert 'MiB of arguments' in output[1]
  assert 'held twice' not in output[1]


def test_a_state_that_is_not_donated_is_logged(made):
  step, output = made(donate=False)
  step(*arguments(3))
  assert '0 MiB of the training state is held twice' in output[1]


def test_a_device_that_reports_its_memory(made, monkeypatch):
  stats = {'bytes_limit': 2**24, 'bytes_in_use': 2**20}
  monkeypatch.setattr(compiled, 'device_memory', lambda: stats)
  step, output = made(donate=True)
  step(*arguments(3))
  needed = float(re.search(r'fits: (\S+) of 16 MiB', output[-1])[1])
  assert 1 <= needed < 3  # other arrays are held besides the arguments


def test_a_step_that_does_not_fit_is_not_run(made, monkeypatch):
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


def test_a_compiler_that_finds_too_little_memory(compiler):
  reason = 'RESOURCE_EXHAUSTED: Used 17.5G of 15.75G hbm'
  with pytest.raises(ConfigError, match=r'17\.5G of 15\.75G.*batch_size'):
    compile_by_shape(_Refused(reason), print, compiler)(*arguments(3))
  with pytest.raises(jax.errors.JaxRuntimeError, match='INTERNAL'):
    compile_by_shape(_Refused('INTERNAL: a bug'), print, compiler)(*arguments(3))


def test_operations_are_not_logged_where_they_cannot_be_counted(made, monkeypatch):
  def cannot(*_):
    raise RuntimeError('no backend cpu')

  monkeypatch.setattr(compiled, 'cost_of_traced', cannot)
  step, output = made(donate=True)
  step(*arguments(3))
  assert 'GFLOP' not in output[1]
  assert 'MiB of arguments' in output[1]
