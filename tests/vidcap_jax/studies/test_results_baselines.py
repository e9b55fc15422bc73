"""Baselines beside a row: computed once, kept in the run, and computed again when it changes."""

import json
import shutil
import statistics

import pytest

from tests import tiny
from tests.vidcap_jax.studies import finished
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.data.texts import read_texts
from vidcap_jax.evaluation import metrics, people
from vidcap_jax.studies import results_baselines, results_rows


@pytest.fixture(scope='module')
def run(evaluated_run, tmp_path_factory):
  """A run that is evaluated on its validation split."""
  workdir = tmp_path_factory.mktemp('baselines') / 'run'
  shutil.copytree(evaluated_run, workdir)
  return workdir


def collect(run, compute=True):
  lines = []
  rows, _ = results_rows.find([str(run)])
  with tiny.unscored_by_java():
    return results_baselines.collect(rows, compute, lines.append), lines


def test_they_are_computed_once_and_kept(run, tiny_data, monkeypatch):
  assert not collect(run, compute=False)[0].swapped
  found, lines = collect(run)
  report = json.loads((run / 'eval' / 'val' / 'metrics.json').read_text())
  ((key, fixed),) = found.fixed.items()
  assert key == (report['data']['hash'], 'val')
  constant = fixed[f'constant: {report["constant_caption"]}']
  assert constant['CIDEr'] == pytest.approx(report['constant_CIDEr'])
  assert 'CIDEr' in fixed['nearest: image']
  captions = {video.video_id: video.captions for video in read_texts(open_split(tiny_data, 'val'))}
  each = [metrics.score(*pair, ['CIDEr'])[0]['CIDEr'] for pair in people.rounds(captions)]
  of = f'people: mean of {len(each)} captions a video, each by the others'
  assert fixed[of]['CIDEr'] == pytest.approx(statistics.mean(each))
  ((_, swapped),) = found.swapped.items()
  assert swapped['CIDEr'] != pytest.approx(report['CIDEr'])
  assert len(lines) == 1

  kept = json.loads((run / 'eval' / 'val' / 'baselines.json').read_text())
  texts = {name: kept[name]['signature'] for name in ('constant', 'nearest', 'swapped')}
  assert texts['swapped'] == report['signature']
  without_decoding = report['signature'].replace('|decode:beam|beam:2|lp:0|', '|')
  without_decoding = without_decoding.replace('|decode:greedy|beam:1|lp:0|', '|')
  assert texts['constant'] == texts['nearest'] == without_decoding

  monkeypatch.setattr(metrics, 'score', None)  # nothing is scored again
  assert collect(run) == (found, [])
  assert collect(run, compute=False)[0] == found


def test_kept_ones_of_another_evaluation_are_not_shown(run):
  collect(run)
  path = run / 'eval' / 'val' / 'baselines.json'
  kept = json.loads(path.read_text())
  kept['of']['decode']['beam'] += 1
  path.write_text(json.dumps(kept))
  assert not collect(run, compute=False)[0].swapped
  found, _ = collect(run)
  assert found.swapped


def test_a_data_set_that_is_gone_is_named(run, tmp_path, monkeypatch):
  copy = tmp_path / 'copy'
  shutil.copytree(run, copy)
  (copy / 'eval' / 'val' / 'baselines.json').unlink(missing_ok=True)
  monkeypatch.setattr(
    restore.Restored, 'data_folder', lambda *_: (_ for _ in ()).throw(restore.DataError('gone'))
  )
  found, lines = collect(copy)
  assert not found.swapped
  assert any('val' in line and 'gone' in line for line in lines)


def test_captions_of_several_models_are_not_swapped(tmp_path):
  workdir = finished.write(tmp_path / 'run')
  path = workdir / 'eval' / 'test' / 'metrics.json'
  path.write_text(json.dumps({**json.loads(path.read_text()), 'fusion': {}}))
  _, lines = collect(workdir)  # there is no checkpoint
  assert len(lines) == 1
  assert 'no constant, nearest, people:' in lines[0]
