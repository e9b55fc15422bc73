import dataclasses
import json

import numpy as np
import pytest

from tests.vidcap_jax.studies.explained import ATTENTIONS, EXPLAINED, T, attention
from vidcap_jax.data.records import Video
from vidcap_jax.reporting import attention as reported

VIDEO = Video('v', (), {'cells': np.zeros((T, 2, 3, 1))})


def maps(*attentions):
  return {m.name: m for m in reported.maps_of({a.name: a for a in attentions})}


def test_what_is_drawn_of_each_kind():
  found = maps(*ATTENTIONS)
  assert {name: m.axes for name, m in found.items()} == {
    'ts_spatial': ('frames', 'places'),
    'all': ('frames', 'places'),
    'spatial': ('frames', 'places'),
    'temporal': ('frames',),
    'one_place': ('frames',),
    'keyframe': ('frames',),
    'layer': ('layers',),
    'branch': ('branches',),
  }
  assert list(found)[:3] == ['ts_spatial', 'all', 'spatial']  # pictures come first
  assert found['layer'].labels == ('pool4', 'pool5')
  assert found['temporal'].frames == tuple(('cells', row) for row in range(T))
  np.testing.assert_allclose(
    found['keyframe'].weights, EXPLAINED.attentions['keyframe'].weights.sum(1)
  )


def test_places_of_the_frames_that_another_attention_chooses():
  found = maps(*ATTENTIONS)['ts_spatial']
  temporal = EXPLAINED.attentions['temporal'].weights
  places = EXPLAINED.attentions['ts_spatial'].weights
  np.testing.assert_allclose(found.weights, temporal[:, :, None] * places[:, None])


def test_members_of_an_ensemble_keep_their_names_and_choosers():
  own = {f'{name} of 1': each for name, each in EXPLAINED.attentions.items()}
  found = {m.name: m.axes for m in reported.maps_of(own)}
  assert found['ts_spatial of 1'] == ('frames', 'places')
  assert set(found) <= set(own)


@pytest.mark.parametrize('rows', [[0], [1, 4, 7]])
def test_places_of_a_picture_or_of_the_mean_of_frames(rows):
  only = attention('spatial', ('places',), (6,), grid=(2, 3))
  found = maps(dataclasses.replace(only, rows=np.array(rows)))['spatial']
  assert (found.axes, found.grid) == (('places',), (2, 3))
  assert found.frames == tuple(('cells', row) for row in rows)
  np.testing.assert_allclose(found.weights, only.weights)
  assert maps(only) == {}  # of a stream that the video lacks


def test_regions_of_the_frames_that_are_picked():
  found = maps(*ATTENTIONS)['spatial']
  picks = EXPLAINED.attentions['keyframe'].weights
  places = EXPLAINED.attentions['spatial'].weights
  np.testing.assert_allclose(found.weights, np.einsum('lkt,lkn->ltn', picks, places))
  assert found.grid is None
  assert found.chosen == maps(*ATTENTIONS)['keyframe'].chosen


def test_a_large_map_keeps_its_frames(monkeypatch):
  monkeypatch.setattr(reported, '_MOST_PLACES', 10)
  found = maps(*ATTENTIONS)['all']
  assert (found.axes, found.grid) == (('frames',), None)


def test_json_is_compact_and_exact_to_its_levels():
  found = reported.maps_of(EXPLAINED.attentions)
  shown = reported.Explained(VIDEO, found, ('cells', 2))
  entry = reported.as_json('a red x', shown, lambda frame: {'time': frame[1], 'picture': None})
  json.dumps(entry)
  assert entry['words'] == ['a', 'red', 'x']
  assert [frame['time'] for frame in entry['frames']] == list(range(T))
  assert (entry['key_frame'], entry['saved_key_frame']) == (2, -1)
  for drawn, saved in zip(found, entry['maps'], strict=True):
    weights = np.array(saved['weights'])
    assert weights.dtype == int
    assert weights / saved['levels'] == pytest.approx(drawn.weights, abs=0.51 / saved['levels'])
    assert [entry['frames'][place]['time'] for place in saved['frames']] == [
      row for _, row in drawn.frames
    ]


def test_captions_with_unknown_words_are_not_explained(restored):
  known = restored.vocabulary.words[5]
  assert reported.can_explain([restored], known)
  assert not reported.can_explain([restored], f'{known} zebra')
  assert not reported.can_explain([restored], '')
