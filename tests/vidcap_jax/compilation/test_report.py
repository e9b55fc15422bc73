"""What a compiled program holds, and the verdict on it."""

import dataclasses
import json
import pathlib

import jax
import jax.numpy as jnp
import pytest

from tests.vidcap_jax.compilation import toy_program as toy
from tests.x64 import enable_x64
from vidcap_jax.compilation.chips import find_chip
from vidcap_jax.compilation.hlo import read_program
from vidcap_jax.compilation.report import (
  Collective,
  Report,
  collective_seconds,
  contents_of,
  from_dict,
)
from vidcap_jax.training.memory import Memory

HLO = pathlib.Path(__file__).with_name('hlo')
GRADIENTS = 4 * (toy.SIZE * toy.SIZE + toy.SIZE * toy.VOCABULARY)


def contents(function, *arguments):
  return contents_of(read_program(jax.jit(function).lower(*arguments).compile().as_text()))


@pytest.fixture(scope='module')
def tpu():
  return contents_of(read_program((HLO / 'tpu.hlo').read_text()))


@pytest.fixture(scope='module')
def gpu():
  return contents_of(read_program((HLO / 'gpu.hlo').read_text()))


def test_collectives_by_place(tpu, gpu):
  # TPUs reduce the gradient of a sum before the product with ones; GPUs reduce all gradients.
  (outside, inside), (all_gradients, _) = tpu.collectives, gpu.collectives
  assert (outside.kind, outside.in_loop, outside.count, outside.runs) == ('all-reduce', False, 1, 1)
  assert outside.bytes == 4 * (toy.SIZE * toy.SIZE + toy.SIZE + 1)
  name = 'jit(step)/jvp()/while/cond/reduce_max'
  assert inside == Collective('all-reduce', True, 1, toy.MOST, 4 * toy.MOST, name)
  assert all_gradients.bytes == GRADIENTS + 4


def test_cycles_are_counted_as_often_as_they_run(tpu, gpu):
  text = (HLO / 'tpu.hlo').read_text().replace(f'constant({toy.WORDS})', 'constant(1)')
  once = contents_of(read_program(text)).cycles
  assert tpu.cycles > 2 * once > 0
  assert gpu.cycles == 0  # the compiler of GPUs estimates none


def test_operations_that_the_compiler_cannot_estimate(tpu):
  text, known = (HLO / 'tpu.hlo').read_text(), '"estimated_cycles":"2217"'  # of one, in a loop
  unknown = text.replace(known, f'"estimated_cycles":"{2**63 - 1}"')
  found = contents_of(read_program(unknown))
  assert (tpu.without_cycles, found.without_cycles) == (0, toy.WORDS)
  assert found.cycles == tpu.cycles - 2217 * toy.WORDS


def test_a_clean_program(tpu):
  assert (tpu.loops, tpu.open_loops) == (3, 1)
  assert not tpu.host_calls
  assert not tpu.float64
  assert not tpu.copies


def test_the_largest_arrays_have_names(tpu):
  assert tpu.buffers[0].name == "params['words']"
  assert tpu.buffers[0].bytes == 4 * toy.SIZE * toy.VOCABULARY
  assert tpu.buffers[0].shape == f'f32[{toy.SIZE},{toy.VOCABULARY}]'


def test_calls_of_the_host():
  def call(x):
    return jax.pure_callback(lambda x: x, x, x) + 1

  assert contents(call, jnp.ones(3)).host_calls
  assert not contents(lambda x: x + 1, jnp.ones(3)).host_calls


def test_float64():
  with enable_x64():
    assert contents(lambda x: x.astype('float64').sum(), jnp.ones(3, 'float32')).float64
  assert not contents(lambda x: x.sum(), jnp.ones(3)).float64


def test_large_copies_as_often_as_they_run():
  text = (
    '%body (s: (s32[], f32[512,1024])) -> (s32[], f32[512,1024]) {\n'
    '  %s = (s32[], f32[512,1024]{1,0}) parameter(0)\n'
    '  %x = f32[512,1024]{1,0} get-tuple-element(%s), index=1\n'
    '  %c = f32[512,1024]{0,1} copy(%x), metadata={op_name="jit(step)/attention"}\n}\n\n'
    'ENTRY %main (a: f32[512,1024]) -> f32[512,1024] {\n'
    '  %a = f32[512,1024]{1,0} parameter(0)\n'
    '  %small = f32[8]{0} copy(%a)\n'
    '  ROOT %w = (s32[], f32[512,1024]) while(%a), condition=%none, body=%body, '
    'backend_config={"known_trip_count":{"n":"21"}}\n}\n\n'
    '%none (s: (s32[])) -> pred[] {\n  ROOT %p = pred[] constant(false)\n}\n'
  )
  found = contents_of(read_program(text))
  assert [(c.bytes, c.name) for c in found.copies] == [(2**21, 'jit(step)/attention')]
  assert found.copied_bytes == 21 * 2**21


def test_time_of_collectives(tpu):
  chip = find_chip('v5e')
  assert collective_seconds(tpu, chip, 1) == 0
  total = sum(c.bytes for c in tpu.collectives)
  assert collective_seconds(tpu, chip, 8) == pytest.approx(2 * total * 7 / 8 / chip.links)


def test_transfers_between_slices():
  """As the compiler of TPUs writes them: an all-reduce in each slice and between them."""
  attributes = (
    'is_host_transfer=true, frontend_attributes={'
    '_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_megascale_transfer_type="ALL_REDUCE"}'
  )
  text = (
    'ENTRY %main (a: f32[4,8]) -> f32[4,8] {\n'
    '  %a = f32[4,8]{1,0} parameter(0)\n'
    '  %r = f32[2,8]{1,0} reduce-scatter(%a), replica_groups={{0,1},{2,3}}, dimensions={0}\n'
    '  %t = token[] after-all()\n'
    f'  %send = (f32[2,8]{{1,0}}, u32[], token[]) send(%r, %t), {attributes}\n'
    f'  %recv = (f32[2,8]{{1,0}}, u32[], token[]) recv(%t), {attributes}\n'
    '  ROOT %g = f32[4,8]{1,0} all-gather(%r), dimensions={0}\n}\n'
  )
  found = contents_of(read_program(text))
  sizes = {c.kind: c.bytes for c in found.collectives}
  assert sizes == {'reduce-scatter': 128, 'all-reduce between slices': 64, 'all-gather': 128}
  assert not found.host_calls
  seconds = collective_seconds(found, find_chip('v5e'), 2)
  assert seconds == pytest.approx((128 + 128) / 2 / find_chip('v5e').links)
  other = contents_of(read_program(text.replace('_xla_megascale_transfer_type', 'other')))
  assert other.host_calls == ['send', 'recv']


def test_a_reduce_scatter_that_the_compiler_of_tpus_writes_as_a_fusion():
  text = (
    '%all-reduce-scatter.3 (input: f32[64,8]) -> f32[8,8] {\n'
    '  %input = f32[64,8]{1,0} parameter(0)\n'
    '  %sum = f32[64,8]{1,0} all-reduce(%input), to_apply=%add\n'
    '  ROOT %part = f32[8,8]{1,0} dynamic-slice(%sum), dynamic_slice_sizes={8,8}\n}\n\n'
    'ENTRY %main (a: f32[64,8]) -> f32[8,8] {\n'
    '  %a = f32[64,8]{1,0} parameter(0)\n'
    '  ROOT %f = f32[8,8]{1,0} fusion(%a), kind=kCustom, calls=%all-reduce-scatter.3, '
    'metadata={op_name="jit(step)/gradients"}\n}\n'
  )
  found = contents_of(read_program(text))
  name = 'jit(step)/gradients'
  assert found.collectives == [Collective('reduce-scatter', False, 1, 1, 4 * 64 * 8, name)]
  chip = find_chip('v5e')
  assert collective_seconds(found, chip, 8) == pytest.approx(2048 * 7 / 8 / chip.links)


@pytest.mark.parametrize(('total', 'fits'), [(16 * 2**30, True), (16 * 2**30 + 1, False)])
def test_verdict(total, fits):
  report = Report('xe', 'step', 21, memory=Memory(total, 0, 0, 0))
  assert report.fits(find_chip('v5e')) == fits


def test_a_program_that_does_not_compile_does_not_fit():
  assert not Report('xe', 'step', 21, error='internal').fits(find_chip('v5e'))


def test_a_report_is_the_same_after_reading_it_again(tpu):
  report = Report('xe', 'step', 21, memory=Memory(1, 2, 3, 4), contents=tpu)
  assert from_dict(json.loads(json.dumps(dataclasses.asdict(report)))) == report
