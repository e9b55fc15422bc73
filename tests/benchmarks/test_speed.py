"""The table of speeds, with and without a program to compare with."""

import json
import sys

import numpy as np
import pytest

from benchmarks import speed
from benchmarks.peer import Peer
from benchmarks.programs import Program, Sizes

PROGRAM = """
import json, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
for op in flags['--ops'].split(','):
  for number, impl in enumerate(flags['--impl'].split(',')):
    print(json.dumps({'op': op, 'impl': impl, 'median_s': 1 / (number + int(flags['--batch']))}))
"""


@pytest.fixture
def program(tmp_path):
  path = tmp_path / 'peer.py'
  path.write_text(PROGRAM)
  return path


def test_ratios_and_goals(program):
  sizes = Sizes(batch=2)
  peer = Peer((sys.executable, str(program)), {'batch': 2})
  peer.run(('xe', 'scst', 'greedy', 'beam'), ('split',), 1)  # 0.5 s each: 4 captions per second
  seconds = {'xe': 0.25, 'self_critical': 0.5, 'self_critical replay': 1.0, 'greedy': 0.5}
  seconds |= {'beam': 0.5, 'reward': 0.01, 'reward of a step': 0.1, 'reward on the host': 0.04}
  rows = speed.rows_of(sizes, {k: [v] for k, v in seconds.items()}, {}, {}, peer, None)
  named = {row.name: row for row in rows}
  assert (named['xe'].value, named['xe'].ratio, named['xe'].met) == (8.0, 2.0, True)
  assert (named['beam 5'].ratio, named['beam 5'].met) == (1.0, False)
  assert (named['self_critical / xe'].value, named['self_critical / xe'].met) == (2.0, False)
  assert (named['reward in a step'].value, named['reward in a step'].met) == (0.2, False)
  assert named['reward, 2 x 5 samples'].ratio == pytest.approx(4)


def test_one_pass_is_compared_with_steps():
  seconds = {'xe': 0.25, 'self_critical': 0.5, 'self_critical replay': 1.0, 'greedy': 0.5}
  seconds |= {'beam': 0.5, 'reward': 0.01, 'reward of a step': 0.1, 'reward on the host': 0.04}
  seconds |= {speed.ONE_PASS: 0.2, speed.BY_STEPS: 0.5}
  rows = speed.rows_of(Sizes(batch=2), {k: [v] for k, v in seconds.items()}, {}, {}, None, None)
  named = {row.name: row for row in rows}
  assert (named[speed.ONE_PASS].value, named[speed.ONE_PASS].ratio) == (10.0, 2.5)
  assert named[speed.BY_STEPS].value == 4.0


def test_shares_of_the_rate_of_products():
  counted = {'product, small': 1e9, 'product, large': 8e9, 'xe': 9e9, 'self_critical': 6e9}
  counted |= {'greedy': 3e9, 'beam': 10e9, 'xe, 9 tokens': 5e9}
  counted = {name: Program(lambda: None, flops) for name, flops in counted.items()}
  seconds = {name: [1.0, 3.0] for name in counted} | {'product, large': [0.9, 0.8]}
  rows = speed.shares_of_products(seconds, counted)
  assert (rows[0].value, rows[0].unit) == (pytest.approx(10), 'GFLOP/s')
  assert 'product, large' in rows[0].name
  found = {row.name.split(',')[0]: (row.value, row.met) for row in rows[1:]}
  expected = {'xe': 0.9, 'self_critical': 0.6, 'greedy': 0.3, 'beam': 1.0}
  assert found == {
    name: (pytest.approx(share), share >= speed.SHARE_GOALS[name])
    for name, share in expected.items()
  }


def test_captions_of_real_lengths_are_compared_with_the_longest_of_a_batch(program):
  sizes = Sizes(batch=2)
  peer, padded = (Peer((sys.executable, str(program)), {'batch': n}) for n in (1, 2))
  for each in (peer, padded):
    each.run(('xe', 'scst', 'greedy', 'beam'), ('split',), 1)  # 1 s and 0.5 s
  names = ('xe', 'self_critical', 'self_critical replay', 'greedy', 'beam', 'reward')
  names += ('reward of a step', 'reward on the host', 'greedy, real lengths')
  seconds = dict.fromkeys(names, 0.5) | {'beam, real lengths': 0.2}
  rows = speed.rows_of(sizes, {k: [v] for k, v in seconds.items()}, {}, {}, peer, padded)
  named = {row.name: row for row in rows}
  assert (named['beam 5'].ratio, named['beam 5'].goal) == (2.0, 1.5)
  real = named['beam 5, real lengths']
  assert (real.ratio, real.goal, real.met) == (2.5, 1.6, True)
  assert named['greedy, real lengths'].ratio == 1.0


def test_typical_lengths_are_spread_as_all_are():
  lengths = [np.arange(1, 21)] * 5
  found = speed.typical_lengths(lengths, 40)
  np.testing.assert_array_equal(np.sort(found), np.repeat(np.arange(1, 21), 2))
  assert (np.diff(found) < 0).any()


def test_batches_of_real_lengths_fall_into_buckets():
  rng = np.random.default_rng(0)
  lengths = [rng.integers(4, 20, size=20) for _ in range(32)]
  shares = speed.bucket_shares(lengths, batch=8, longest=20)
  assert sum(shares.values()) == pytest.approx(1)
  assert set(shares) == {7, 9, 11, 13, 16, 20}
  assert speed.longest_of_random(lengths, 64) == 19


@pytest.mark.slow
def test_the_command_times_everything(tmp_path):
  table = tmp_path / 'table.json'
  sizes = {'batch': 4, 'frames': 3, 'channels': 8, 'hidden': 8, 'words': 30, 'length': 6}
  sizes |= {'references': 2, 'videos': 8, 'beam': 2, 'rounds': 2, 'calls': 1}
  speed.main([f'--{name}={value}' for name, value in sizes.items()] + [f'--json={table}'])
  rows = {row['name']: row for row in json.loads(table.read_text())}
  assert all(row['value'] > 0 for row in rows.values())
  assert {'xe', 'self_critical', 'beam 2', 'xe memory', 'self_critical / xe'} <= set(rows)
  assert {f'{name}, share of it' for name in speed.SHARE_GOALS} <= set(rows)
