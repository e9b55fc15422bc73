"""What a card shows: intervals, and what the captions of a split are bad at."""

import dataclasses

import pytest

from tests import tiny
from vidcap_jax.data.records import Video
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.studies import card_contents


def collect(restored, run, split=None, data=None):
  path = run / 'checkpoints' / 'xe' / restored.path.name
  with tiny.unscored_by_java():
    return card_contents.collect(
      dataclasses.replace(restored, path=type(restored.path)(path)), data, split, [].append
    )


def test_scores_have_intervals_on_splits_with_references(restored, evaluated_run):
  card = collect(restored, evaluated_run)
  assert set(card.reports) == {'val', 'test'}
  assert set(card.intervals) == {'val'}  # the test split has no references
  low, high = card.intervals['val']['CIDEr']
  assert low <= card.reports['val']['CIDEr'] <= high
  assert card.weakness.split == 'val'
  assert len(card.weakness.lowest) == 3
  assert card.manifest.hash == restored.meta['data']['hash']
  assert not card.note


def test_without_the_data_set_scores_are_those_of_the_evaluation(
  restored, evaluated_run, monkeypatch
):
  def gone(*_):
    raise DataError('the data set is gone')

  monkeypatch.setattr(type(restored), 'data_folder', gone)
  card = collect(restored, evaluated_run)
  assert 'CIDEr' in card.reports['val']
  assert not card.intervals
  assert card.weakness is None
  assert 'gone' in card.note


def test_a_split_without_captions_is_refused_with_those_that_have_some(restored, evaluated_run):
  with pytest.raises(UserError, match=r'--split=vall.*val'):
    collect(restored, evaluated_run, 'vall')
  assert collect(restored, evaluated_run, 'val').weakness.split == 'val'


def test_a_data_set_that_is_given_must_exist(restored, evaluated_run, tmp_path):
  with pytest.raises(UserError, match=r'--data=.*nothing'):
    collect(restored, evaluated_run, data=str(tmp_path / 'nothing'))


def test_reports_of_other_checkpoints_are_left_out(restored, evaluated_run, monkeypatch):
  read_json = card_contents.read_json
  monkeypatch.setattr(
    card_contents, 'read_json', lambda path: {**read_json(path), 'checkpoint_step': 1}
  )
  assert not collect(restored, evaluated_run).reports


def test_weakness(restored):
  known, other = (w for w in restored.vocabulary.words if w in ('red', 'blue'))
  videos = [
    Video('a', (f'a {known} ball', f'{known} zebra'), {}, category=4),
    Video('b', (f'a {known} zebra',), {}, category=4),
    Video('c', ('a ball',), {}, category=2),
    Video('d', ('a ball',), {}),
  ]
  captions = {'a': f'a {other}', 'b': 'a ball', 'c': 'a ball', 'd': 'ball'}
  ciders = {'a': 0.5, 'b': 0.25, 'c': 2.0, 'd': 1.0}
  found = card_contents.find_weakness('val', videos, captions, ciders, restored)
  assert [(v.video_id, caption) for v, caption, _ in found.lowest][:2] == [
    ('b', 'a ball'),
    ('a', f'a {other}'),
  ]
  assert found.categories == [(4, 2, pytest.approx(0.375)), (2, 1, 2.0)]
  assert (found.unsaid, found.unknown) == ([(known, 2)], [('zebra', 2)])
  assert found.repeated == 0.5
