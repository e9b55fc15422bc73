"""Rows of a device's programs: in time, over crashes, beside a PyTorch program."""

import argparse
import json
import sys
import time

import pytest

from benchmarks import device
from benchmarks.device import FIRST, LAST, Measured, Target
from tests.benchmarks.test_speed import PROGRAM
from vidcap_jax import config_files

WORKER = """
import json, os, sys, time
request = json.loads(sys.argv[1])
print('a line that is no row')
print(json.dumps({'device': 'A', 'platform': 'gpu', 'chip': None}), flush=True)
for target in request['targets']:
  if target['program'] == 'crash':
    os._exit(7)
  if target['program'] == 'hang':
    time.sleep(600)
  print(json.dumps({'median': 0.5, 'captions_per_s': 4.0}), flush=True)
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
  """``run(programs, seconds, limit)``: rows of a process without devices."""
  (tmp_path / 'made_up_worker.py').write_text(WORKER)
  monkeypatch.setenv('PYTHONPATH', str(tmp_path))

  def measure(programs, seconds=60.0, limit=60.0):
    measured = Measured(str(tmp_path / 'rows.json'))
    targets = [Target(f'row {i}', program) for i, program in enumerate(programs)]
    deadline = time.monotonic() + seconds
    device.measure(targets, False, deadline, limit, measured, worker='made_up_worker')
    assert json.loads((tmp_path / 'rows.json').read_text())['rows'] == measured.rows
    assert [row['name'] for row in measured.rows] == [target.name for target in targets]
    return measured

  return measure


def test_a_crash_is_a_row(run):
  measured = run(['step', 'crash', 'crash', 'beam'])
  assert ['median' in row for row in measured.rows] == [True, False, False, True]
  assert 'exit code 7' in measured.rows[1]['problem']
  assert measured.device['device'] == 'A'


def test_a_program_that_hangs_is_a_row(run):
  start = time.monotonic()
  measured = run(['hang', 'step'], limit=2.0)
  assert 'too long' in measured.rows[0]['problem']
  assert measured.rows[1]['median'] == 0.5
  assert time.monotonic() - start < 60


def test_rows_after_the_time_is_over(run):
  measured = run(['step', 'hang', 'step'], seconds=3.0)
  assert measured.rows[0]['median'] == 0.5
  assert all('the time was over' in row['problem'] for row in measured.rows[1:])


@pytest.mark.parametrize('target', [t for t in FIRST + LAST if t.config], ids=lambda t: t.name)
def test_configs_have_the_stages_that_are_measured(target):
  config = config_files.load_config(target.config)
  assert target.stage in ('', *config.order)


def peer_rows(tmp_path, platform, program=PROGRAM):
  file = tmp_path / 'peer.py'
  file.write_text(program)
  options = argparse.Namespace(
    peer=str(file), peer_python=sys.executable, variants=['cell', 'late'], small=True, minutes=1.0
  )
  measured = Measured(None, {'platform': platform})
  device.measure_peer(options, time.monotonic() + 60, measured)
  return measured.rows


def test_the_peer_is_measured_on_the_same_device(tmp_path):
  rows = peer_rows(tmp_path, 'gpu')
  assert [row['name'] for row in rows] == [f'the peer, {n}' for n in device.PEER_PROGRAMS]
  assert {(row['variant'], row['captions_per_s']) for row in rows} == {('late', 6.0)}
  on_cuda = PROGRAM + "sys.exit(flags['--device'] != 'cuda')\n"
  assert all('median' in row for row in peer_rows(tmp_path, 'gpu', on_cuda))
  assert all('peer.py' in row['problem'] for row in peer_rows(tmp_path, 'cpu', on_cuda))


@pytest.mark.parametrize(
  ('platform', 'program'), [('tpu', PROGRAM), ('gpu', 'raise SystemExit("no torch")'), ('cpu', '')]
)
def test_a_peer_that_cannot_run_is_a_row(platform, program, tmp_path):
  rows = peer_rows(tmp_path, platform, program)
  assert rows
  assert all(row['problem'] and 'median' not in row for row in rows)


def test_comparisons():
  names = (FIRST[0].name, FIRST[1].name, FIRST[2].name, "the peer's model, beam", 'the peer, beam')
  measured = Measured(None)
  measured.rows = [
    {'name': name, 'median': s} for name, s in zip(names, (0.5, 1.0, 0.02, 0.25, 1.0))
  ]
  values = [line.rpartition(': ')[2] for line in device.comparisons(measured)]
  assert values == ['0.02', '2', '4']
  measured.rows = measured.rows[:1]
  assert not device.comparisons(measured)


@pytest.mark.parametrize(
  ('row', 'parts'),
  [
    ({'median': 0.0125, 'captions_per_s': 5120.0}, ('12.5 ms', '5,120 captions/s')),
    ({'share_of_peak': 0.123, 'memory': {'total': 2**30}}, ('12.3 % of peak', '1,024 MiB')),
    ({'problem': 'RESOURCE_EXHAUSTED'}, ('RESOURCE_EXHAUSTED',)),
    ({'memory': None, 'compile_seconds': 9.0}, ('compiled in 9 s',)),
  ],
)
def test_a_line(row, parts):
  line = device.line_of({'name': 'xe', **row})
  assert all(part in line for part in ('xe', *parts))


@pytest.mark.parametrize(
  ('arguments', 'words'), [(['--minutes=0'], '--minutes=0'), (['--peer=none.py'], 'none.py')]
)
def test_wrong_options(arguments, words, capsys):
  with pytest.raises(SystemExit):
    device.main(arguments)
  assert words in capsys.readouterr().err
