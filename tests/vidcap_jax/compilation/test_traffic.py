"""Bytes moved, against counts by hand."""

import pytest

from vidcap_jax.compilation.hlo import read_program
from vidcap_jax.compilation.traffic import traffic_of

STACK = 'f32[21,8,512]{2,1,0}'
ROW = 'f32[8,512]{1,0}'
STACK_BYTES, ROW_BYTES = 4 * 21 * 8 * 512, 4 * 8 * 512
HEAD = f'ENTRY %main (a: {STACK}, b: {ROW}, i: s32[]) -> {STACK} {{\n' + (
  f'  %a = {STACK} parameter(0)\n  %b = {ROW} parameter(1)\n  %i = s32[] parameter(2)\n'
)


def fused(body, result=STACK):
  text = f'%f (p: {STACK}, q: {ROW}, j: s32[]) -> {result} {{\n' + (
    f'  %p = {STACK} parameter(0)\n  %q = {ROW} parameter(1)\n'
    f'  %j = s32[] parameter(2)\n{body}}}\n\n'
  )
  return f'{text}{HEAD}  ROOT %r = {result} fusion(%a, %b, %i), kind=kLoop, calls=%f\n}}\n'


@pytest.mark.parametrize(
  ('text', 'expected'),
  [
    (f'{HEAD}  ROOT %r = {ROW} add(%b, %b)\n}}\n', 3 * ROW_BYTES),
    (f'{HEAD}  ROOT %r = {ROW} bitcast(%b)\n}}\n', 0),
    (f'{HEAD}  ROOT %r = {STACK} copy(%a)\n}}\n', 2 * STACK_BYTES),
    (f'{HEAD}  ROOT %r = {ROW} dynamic-slice(%a, %i)\n}}\n', 2 * ROW_BYTES),
    (f'{HEAD}  ROOT %r = {STACK} dynamic-update-slice(%a, %b, %i)\n}}\n', 2 * ROW_BYTES),
  ],
)
def test_single_operations(text, expected):
  assert traffic_of(read_program(text)) == expected


def test_a_fusion_that_reads_a_slice():
  body = (
    f'  %s = {ROW} dynamic-slice(%p, %j)\n  %t = {ROW} tanh(%s)\n  ROOT %u = {ROW} add(%t, %q)\n'
  )
  read = ROW_BYTES + ROW_BYTES + 4
  assert traffic_of(read_program(fused(body, ROW))) == read + ROW_BYTES


def test_a_fusion_that_updates_a_slice_in_place():
  body = (
    f'  %t = {ROW} tanh(%q)\n  %v = f32[1,8,512]{{2,1,0}} bitcast(%t)\n'
    f'  ROOT %u = {STACK} dynamic-update-slice(%p, %v, %j)\n'
  )
  assert traffic_of(read_program(fused(body))) == (ROW_BYTES + 4) + ROW_BYTES


def test_a_fusion_that_reads_all_of_an_operand():
  body = f'  %s = {ROW} dynamic-slice(%p, %j)\n  ROOT %u = {STACK} add(%p, %p)\n'
  assert traffic_of(read_program(fused(body))) == 2 * STACK_BYTES + 4


def test_loops_count_as_often_as_they_run():
  text = (
    f'%body (s: {ROW}) -> {ROW} {{\n  %s = {ROW} parameter(0)\n  ROOT %t = {ROW} tanh(%s)\n}}\n\n'
    f'%never (s: {ROW}) -> pred[] {{\n  ROOT %c = pred[] constant(false)\n}}\n\n'
    f'{HEAD}  ROOT %w = {ROW} while(%b), condition=%never, body=%body, '
    'backend_config={"known_trip_count":{"n":"21"}}\n}\n'
  )
  assert traffic_of(read_program(text)) == 21 * 2 * ROW_BYTES
