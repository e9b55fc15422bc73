"""Learning curves: which runs and points they have."""

import json
import pathlib

import pytest

from vidcap_jax.errors import UserError
from vidcap_jax.studies import curves

RECORDS = [
  {'stage': 'xe', 'step': 5, 'kind': 'train', 'loss': 3.0, 'epoch': 0.5, 'seconds': 60.0},
  {'stage': 'xe', 'step': 10, 'kind': 'val', 'CIDEr': 0.25, 'BLEU_4': 0.2},
  {'stage': 'xe', 'step': 20, 'kind': 'val', 'CIDEr': 0.5, 'BLEU_4': None, 'signature': 'v:1'},
  {'stage': 'rl', 'step': 4, 'kind': 'val', 'CIDEr': 0.75, 'BLEU_4': 0.25},
]


@pytest.fixture
def runs(tmp_path):
  for name in ('seed_0', 'seed_1'):
    (tmp_path / name).mkdir()
    lines = [json.dumps(record) + '\n' for record in RECORDS]
    (tmp_path / name / 'metrics.jsonl').write_text(''.join(lines))
  return tmp_path


def test_stages_follow_each_other_and_gaps_are_left_out():
  assert curves.curve(RECORDS, curves.Panel('val', 'CIDEr')) == [
    (10, 0.25, 'xe'),
    (20, 0.5, 'xe'),
    (24, 0.75, 'rl'),
  ]
  assert curves.curve(RECORDS, curves.Panel('val', 'BLEU_4')) == [(10, 0.2, 'xe'), (24, 0.25, 'rl')]


def test_epochs_and_minutes_are_those_of_training():
  train = {'stage': 'xe', 'kind': 'train'}
  records = [
    {**train, 'step': 10, 'epoch': 1.0, 'seconds': 60.0},
    {'stage': 'xe', 'step': 15, 'kind': 'val', 'CIDEr': 0.25},
    {**train, 'step': 20, 'epoch': 2.0, 'seconds': 120.0},
    {'stage': 'rl', 'step': 4, 'kind': 'train', 'epoch': 0.5, 'seconds': 30.0},
    {'stage': 'rl', 'step': 4, 'kind': 'val', 'CIDEr': 0.5},
  ]
  by_epoch = curves.curve(records, curves.Panel('val', 'CIDEr', 'epoch'))
  assert by_epoch == [(1.5, 0.25, 'xe'), (2.5, 0.5, 'rl')]
  by_minute = curves.curve(records, curves.Panel('val', 'CIDEr', 'minute'))
  assert by_minute == [(2.0, 0.25, 'xe'), (3.5, 0.5, 'rl')]


def test_runs_of_one_name_are_named_with_the_folder_around_them():
  runs = [pathlib.Path('/a/x/seed_0'), pathlib.Path('/a/y/seed_0')]
  assert list(curves.names(runs).values()) == ['x/seed_0', 'y/seed_0']
  assert list(curves.names(runs[:1]).values()) == ['seed_0']


def test_a_folder_means_its_runs(runs):
  both = [runs / 'seed_0', runs / 'seed_1']
  assert curves.workdirs([str(runs)]) == both
  assert curves.workdirs([str(both[1])]) == both[1:]
  with pytest.raises(UserError, match='neither a workdir nor a folder of them'):
    curves.workdirs([str(both[0] / 'eval')])


def test_the_picture(runs):
  pytest.importorskip('matplotlib')
  curves.main([f'--runs={runs}', f'--output={runs}/curves.svg'])
  drawn = (runs / 'curves.svg').read_text()
  assert '<svg' in drawn
  curves.main([f'--runs={runs}', '--kind=train', '--metrics=loss', f'--output={runs}/loss.png'])
  assert (runs / 'loss.png').read_bytes().startswith(b'\x89PNG')
  curves.main([f'--runs={runs}', '--by=epoch,minute', f'--output={runs}/by.svg'])
  assert (runs / 'by.svg').read_text().count('<g id="axes_') == 4  # two metrics


def test_an_unknown_place_lists_the_known_ones(runs):
  pytest.importorskip('matplotlib')
  with pytest.raises(SystemExit, match='hour.*step, epoch, minute'):
    curves.main([f'--runs={runs}', '--by=hour', f'--output={runs}/x.png'])


def test_the_current_folder_has_its_name_in_the_legend(runs, monkeypatch):
  axes = pytest.importorskip('matplotlib.axes')
  monkeypatch.chdir(runs / 'seed_0')
  named = []
  monkeypatch.setattr(
    axes.Axes, 'legend', lambda drawn: named.extend(drawn.get_legend_handles_labels()[1])
  )
  curves.draw(curves.names([pathlib.Path()]), [curves.Panel('val', 'CIDEr')], 'curves.png')
  assert named == ['seed_0']


def test_an_unknown_metric_lists_the_known_ones(runs):
  pytest.importorskip('matplotlib')
  with pytest.raises(SystemExit, match="'SPICE' of 'val'.* BLEU_4, CIDEr"):
    curves.main([f'--runs={runs}', '--metrics=SPICE', f'--output={runs}/x.png'])
