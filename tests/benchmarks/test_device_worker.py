"""Programs of configs and of the PyTorch program's model, measured on the CPU."""

import json

import jax
import pytest

from benchmarks import device_worker
from benchmarks.device_worker import ROUNDS, Target, measure
from tests.vidcap_jax.studies.test_cost_row import CONFIG
from vidcap_jax.compilation.chips import find_chip
from vidcap_jax.distributed import runtime


@pytest.fixture(scope='module')
def config(tmp_path_factory):
  path = tmp_path_factory.mktemp('configs') / 'small.py'
  path.write_text(CONFIG)
  return f'{path}:rl'


@pytest.fixture(autouse=True)
def quick(monkeypatch):
  """One call a round, on a device with published figures, and JAX's settings as they are."""
  monkeypatch.setattr(device_worker, '_MOST_CALLS', 1)
  monkeypatch.setattr(device_worker, 'chip_of', lambda _: find_chip('v5e'))
  monkeypatch.setattr(runtime, 'apply', lambda _: None)


@pytest.mark.parametrize(
  ('program', 'stage', 'batch', 'captions'),
  [
    ('step', 'first', 6, 12),
    pytest.param('reward', 'last', 6, 12, marks=pytest.mark.slow),
    ('greedy', '', 4, 4),
  ],
)
def test_a_program_of_a_config(program, stage, batch, captions, config):
  row = measure(Target('row', program, config, stage), small=False)
  assert 'problem' not in row
  assert row['stage'] == stage or not stage
  assert (row['batch'], row['captions'], row['length']) == (batch, captions, 6)
  assert len(row['seconds']) == ROUNDS
  assert min(row['seconds']) <= row['median'] <= max(row['seconds'])
  assert row['captions_per_s'] == captions / row['median']
  assert row['memory'].keys() >= {'total', 'temporary'}
  chip = find_chip('v5e')
  assert row['share_of_peak'] * row['median'] * chip.peak('float32', 'high') == pytest.approx(
    row['flops']
  )
  json.dumps(row)


@pytest.mark.parametrize(
  ('program', 'stage', 'words'),
  [('step', 'none', 'first, last'), ('reward', 'first', 'cross_entropy')],
)
def test_an_error_is_a_row(program, stage, words, config):
  assert words in measure(Target('row', program, config, stage), small=False)['problem']


def test_what_the_compiler_refuses_is_a_row(config, monkeypatch):
  def refuse(_):
    raise jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory\nfurther lines')

  monkeypatch.setattr(device_worker, 'memory_of', refuse)
  row = measure(Target('row', 'greedy', config), small=False)
  assert row['problem'].endswith('RESOURCE_EXHAUSTED: Out of memory')


def test_a_program_that_does_not_fit_is_not_run(config, monkeypatch):
  monkeypatch.setattr(device_worker.cost_row, 'free_memory', lambda: 1)
  row = measure(Target('row', 'greedy', config), small=False)
  assert 'free' in row['problem']
  assert 'median' not in row
  assert row['memory']['total'] > 1


def test_the_process_prints_the_device_and_a_row_for_each_target(capsys):
  targets = [vars(Target('row', 'greedy')), vars(Target('row', 'step', 'none.py'))]
  device_worker.main([json.dumps({'targets': targets, 'small': True})])
  device, *rows = map(json.loads, capsys.readouterr().out.splitlines())
  assert device['platform'] == 'cpu'
  assert device['chip'] == 'v5e'
  assert ['problem' in row for row in rows] == [False, True]
  assert rows[0]['captions_per_s'] == rows[0]['batch'] / rows[0]['median']
