"""The reader of compiled programs, on texts of ``toy_program`` and on programs of the CPU."""

import pathlib

import jax
import jax.numpy as jnp
import pytest

from tests.vidcap_jax.compilation import toy_program
from vidcap_jax.compilation.hlo import Instruction, read_program, shape_bytes
from vidcap_jax.decoding import compaction

HLO = pathlib.Path(__file__).with_name('hlo')


@pytest.fixture(scope='module', params=['tpu', 'gpu'])
def stored(request):
  return read_program((HLO / f'{request.param}.hlo').read_text())


def test_every_loop_with_its_rounds(stored):
  found = [(loop.rounds, loop.exact, loop.op_name) for loop in stored.loops]
  assert found == [
    (toy_program.WORDS, True, 'jit(step)/jvp()/while'),
    (toy_program.MOST, False, 'jit(step)/jvp()/while'),  # it may end sooner
    (toy_program.WORDS, True, 'jit(step)/transpose(jvp())/while'),
  ]


def test_how_often_each_computation_runs(stored):
  assert stored.runs[stored.entry] == 1
  assert {stored.runs[loop.body] for loop in stored.loops} == {toy_program.WORDS, toy_program.MOST}
  inside_fusions = [name for name in stored.computations if name.startswith('fused_computation')]
  assert not any(stored.runs[name] for name in inside_fusions)


def test_arguments_have_the_names_of_the_model(stored):
  names = [i.op_name for i in stored.computations[stored.entry] if i.opcode == 'parameter']
  assert sorted(names) == ["params['recurrent']", "params['words']", 'x']


def test_loops_inside_loops_run_as_often_as_their_product():
  def inner(state, _):
    return jnp.tanh(state @ state), None

  def outer(state, _):
    return jax.lax.scan(inner, state, None, length=3)[0], None

  @jax.jit
  def run(state):
    return jax.lax.scan(outer, state, None, length=7)[0]

  program = read_program(run.lower(jnp.ones((8, 8))).compile().as_text())
  assert sorted(loop.rounds for loop in program.loops) == [3, 7]
  products = [times for i, times in program.running() if 'tanh' in i.op_name]
  assert 21 in products


def test_a_loop_whose_end_depends_on_the_data():
  @jax.jit
  def run(x):
    return jax.lax.while_loop(lambda x: x.max() < 9, lambda x: x * 2, x)

  text = run.lower(jnp.ones(8)).compile().as_text()
  (loop,) = read_program(text, assumed_rounds=12).loops
  assert (loop.rounds, loop.exact) == (12, False)


def test_loops_for_fewer_videos_replace_rounds_of_the_first():
  """A program is described as it runs when no caption ends early."""

  ends = jnp.arange(32)
  run = jax.jit(
    lambda ends: compaction.run_until_ended(
      lambda t, ends, words: words + t, lambda t, words: words < 40, 0, ends, ends
    )
  )
  program = read_program(run.lower(ends).compile().as_text(), assumed_rounds=12)
  assert sorted(loop.rounds for loop in program.loops) == [0, 0, 12]


@pytest.mark.parametrize(
  ('shape', 'expected'),
  [
    ('f32[8,5]{1,0:T(8,128)}', 160),
    ('(s32[], bf16[4,2]{1,0}, /*index=2*/pred[3])', 4 + 16 + 3),
    ('f8e4m3fn[16]{0}', 16),
    ('token[]', 0),
  ],
)
def test_bytes_of_a_shape(shape, expected):
  assert shape_bytes(shape) == expected


def test_an_instruction():
  text = 'ENTRY %main (a: f32[2]) -> f32[2] {\n' + (
    '  %a = f32[2]{0} parameter(0), metadata={op_name="batch[\\\'x\\\']"}\n'
    '  ROOT %b.1 = f32[2]{0} fusion(%a, %a), kind=kLoop, calls=%f\n}\n'
  )
  first, last = read_program(text).computations['main']
  assert first.op_name == "batch['x']"
  assert last == Instruction('b.1', 'f32[2]{0}', 'fusion', '(%a, %a), kind=kLoop, calls=%f', True)
  assert last.operands == ['a', 'a']
  assert last.attribute('calls') == 'f'
