"""Lines about programs, and the summary."""

import dataclasses
import re

import pytest

from vidcap_jax.compilation import printing
from vidcap_jax.compilation.chips import find_chip
from vidcap_jax.compilation.report import Buffer, Collective, Contents, Report
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.training.memory import Memory

MIB = 2**20
CHIP = find_chip('v5e')
BUFFERS = [Buffer(9 * 10**9, 'f32[6720,334821]', 'jit(train_step)/logits')]
CONTENTS = Contents(
  collectives=[Collective('all-reduce', False, 1, 1, 89_500_000)],
  host_calls=[],
  float64=0,
  copies=[],
  copied_bytes=0,
  buffers=BUFFERS,
  traffic=9,
  cycles=9,
  loops=3,
  open_loops=0,
)
REPORT = Report(
  'xe',
  'step',
  21,
  rows=64,
  seconds=73.4,
  memory=Memory(257 * MIB, 141 * MIB, 256 * MIB, 256 * MIB),
  contents=CONTENTS,
  flops=472e9,
  estimate=7.7e-3,
  collective_estimate=0.87e-3,
  share_of_peak=0.117,
)


def line_of(report=REPORT, **changes):
  contents = dataclasses.replace(CONTENTS, **changes)
  (line,) = printing.report_lines(dataclasses.replace(report, contents=contents), CHIP)
  return line


@pytest.mark.parametrize(
  'part',
  [
    'xe step, 21 tokens, batch 64',
    'compiles (73 s)',
    'fits: 398 of 16,384 MiB',
    'arguments 257',
    'temporary 141',
    '472 GFLOP in 7.7 ms',
    '0.87 ms of collectives',
    '11.7 % of peak',
    '1 all-reduce of 89.5 MB',
  ],
)
def test_one_line_for_a_program(part):
  assert part in line_of()


def test_collectives_between_slices():
  slices = Collective('all-reduce between slices', True, 1, 21, 430_000)
  assert line_of(collectives=[slices]).endswith('21 all-reduce between slices of 430 KB in loops')
  for name, parts in (('2xv5e:2x4', ('16 chips in 2 slices', 'between slices')), ('v5e:2x4', ())):
    text = ' '.join(printing.heading(read_topology(name), '', low_effort=False, assumed=False))
    assert all(part in text for part in parts)
    assert ('slices' in text) == bool(parts)


def test_nothing_is_said_of_what_a_program_does_not_have():
  line = line_of()
  for word in ('host', 'float64', 'copies', 'loops', 'twice'):
    assert word not in line


@pytest.mark.parametrize(
  ('change', 'part'),
  [
    ({'host_calls': ['outfeed', 'outfeed']}, 'host: outfeed'),
    ({'float64': 2}, '2 results in float64'),
    ({'open_loops': 1}, 'a loop may end'),
    ({'open_loops': 2}, '2 loops may end'),
    ({'without_cycles': 21}, 'lacks 21 operations'),
    ({'collectives': []}, 'no collectives'),
    (
      {'copies': [Buffer(2**21, 'f32[9]', 'attention')], 'copied_bytes': 44_000_000},
      'copies of 44 MB.*2.1 MB f32.9. attention',
    ),
    (
      {'collectives': [Collective('all-gather', True, 1, 21, 5000, 'while/add')]},
      '21 all-gather of 5 KB in loops, e.g. while/add',
    ),
  ],
)
def test_what_a_reader_should_know(change, part):
  assert re.search(part, line_of(**change))


def test_a_state_that_is_held_twice():
  assert '89.5 MB of the state' in line_of(dataclasses.replace(REPORT, unaliased=89_500_000))


def test_a_program_without_products_in_triton():
  assert 'Triton' in line_of(dataclasses.replace(REPORT, without_triton=True))
  failed = Report('xe', 'step', 21, error='E', without_triton=True)
  (line,) = printing.report_lines(failed, CHIP)
  assert 'Triton' in line
  assert 'Triton' not in line_of()


def test_a_report_read_from_the_folder():
  assert '73 s, stored' in line_of(dataclasses.replace(REPORT, stored=True))


def test_a_program_that_does_not_fit_is_shown_with_its_largest_arrays():
  large = dataclasses.replace(REPORT, memory=Memory(20_000 * MIB, 0, 0, 0))
  first, second = printing.report_lines(large, CHIP)
  assert 'does not fit: 20,000 of 16,384 MiB' in first
  assert '9 GB f32[6720,334821] jit(train_step)/logits' in second


@pytest.mark.parametrize(
  ('lacking', 'verdict'), [(True, 'does not fit: '), (False, 'does not compile: ')]
)
def test_an_error_of_the_compiler(lacking, verdict):
  failed = Report('xe', 'step', 21, error='E' * 1000, out_of_memory=lacking)
  (line,) = printing.report_lines(failed, CHIP)
  assert f'{verdict}EEE' in line
  assert len(line) < 400


def test_estimates_of_gpus_are_lower_bounds():
  (line,) = printing.report_lines(REPORT, find_chip('h100'))
  assert 'in at least 7.7 ms' in line


def test_summary():
  failed = Report('rl', 'step', 21, error='internal', seconds=10.0)
  stored = dataclasses.replace(REPORT, program='beam', stored=True)
  text = printing.summary([REPORT, stored, failed], CHIP)
  assert '3 programs: 2 compile, 2 fit' in text
  assert '398 of 16,384 MiB (xe step, 21 tokens)' in text
  assert '83 s of compiling' in text


@pytest.mark.parametrize(
  ('name', 'low', 'assumed', 'parts'),
  [
    ('v5e:2x4', True, True, ('8 chips of 16,384 MiB', 'low effort', '25,991 videos', 'libtpu 1')),
    ('v5e:1', False, False, ('1 chip of',)),
    ('h100:8', False, False, ('8 chips of 81,559 MiB', 'published rates')),
  ],
)
def test_heading(name, low, assumed, parts):
  text = '\n'.join(printing.heading(read_topology(name), 'libtpu 1', low, assumed))
  assert all(part in text for part in parts)
  assert ('low effort' in text, 'videos' in text) == (low, assumed)


def test_the_largest_arrays_of_a_program_that_the_compiler_refuses():
  failed = Report('xe', 'step', 21, error='E', out_of_memory=True, arrays=tuple(BUFFERS))
  _, second = printing.report_lines(failed, CHIP)
  assert 'all chips together: 9 GB f32[6720,334821] jit(train_step)/logits' in second


def test_a_long_name_is_cut_at_a_part():
  name = f'jit(train_step)/{"x" * 60}/{"y" * 60}/lstm1_state/reduce_sum'
  line = line_of(collectives=[Collective('all-reduce', True, 1, 21, 5000, name)])
  assert 'e.g. lstm1_state/reduce_sum' in line.replace(f'{"y" * 60}/', '')
  assert 'xxx' not in line


@pytest.mark.parametrize(
  ('flops', 'text'), [(123e6, '0.123'), (45.61e9, '45.6'), (999.6e9, '1,000'), (2604e9, '2,604')]
)
def test_gflop(flops, text):
  assert printing.gflop(dataclasses.replace(REPORT, flops=flops)) == text
