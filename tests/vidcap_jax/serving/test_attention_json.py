"""Attention as JSON: frames in order of time, and weights over frames and places."""

import numpy as np

from vidcap_jax.models.attention_axes import Attention, AttentionAxes
from vidcap_jax.serving import attention_json
from vidcap_jax.serving.media import Decoded

RNG = np.random.default_rng(0)
CLIP = Decoded(
  {},
  (),
  {'image': (0.5, 1.5, 2.5, 3.5), 'motion': (1.5, 2.0)},
  {0.5: 'uri 0.5', 1.5: 'uri 1.5', 2.0: 'uri 2'},
)


def attention(axes, shape, stream='image', rows=(), **settings):
  return Attention(
    'name', AttentionAxes(axes, stream, **settings), RNG.random(shape), np.array(rows), None
  )


def test_maps_share_the_frames_of_their_times():
  maps = {
    'a': attention(('frames',), (2, 3), rows=(0, 1, 3)),
    'b': attention(('frames',), (2, 2), 'motion', rows=(0, 1)),
  }
  shown = attention_json.describe('a dog', maps, CLIP)
  assert shown['words'] == ['a', 'dog']
  assert shown['frames'] == [
    {'time': 0.5, 'picture': 'uri 0.5'},
    {'time': 1.5, 'picture': 'uri 1.5'},
    {'time': 2.0, 'picture': 'uri 2'},
    {'time': 3.5, 'picture': None},
  ]
  assert [each['frames'] for each in shown['maps']] == [[0, 1, 3], [1, 2]]
  np.testing.assert_allclose(shown['maps'][0]['over_frames'], maps['a'].weights, atol=1e-5)


def test_places_and_picks():
  maps = {
    'both': attention(('frames', 'places'), (1, 2, 6), rows=(0, 1)),
    'picks': attention(('picks', 'frames'), (1, 3, 2), rows=(0, 1)),
    'layers': attention(('layers',), (1, 2), '', names=('low', 'high')),
  }
  both, picks, layers = attention_json.describe('a', maps, CLIP)['maps']
  np.testing.assert_allclose(both['over_places'], maps['both'].weights.sum(1), atol=1e-5)
  np.testing.assert_allclose(both['over_frames'], maps['both'].weights.sum(2), atol=1e-5)
  np.testing.assert_allclose(picks['over_frames'], maps['picks'].weights.sum(1), atol=1e-5)
  assert (layers['labels'], layers['frames']) == (['low', 'high'], [])
  assert (layers['over_frames'], layers['over_places']) == (None, None)


def test_places_of_the_mean_of_frames():
  maps = {'spatial': attention(('places',), (1, 6), rows=(0, 3))}
  shown = attention_json.describe('a', maps, CLIP)
  assert [frame['time'] for frame in shown['frames']] == [0.5, 3.5]
  [spatial] = shown['maps']
  assert (spatial['frames'], spatial['over_frames']) == ([0, 1], None)
  shown = attention_json.describe('a', maps, Decoded({}, pictures={0.0: 'uri'}))
  assert (len(shown['frames']), shown['maps'][0]['frames']) == (1, [0, 0])


def test_features_have_neither_times_nor_pictures():
  maps = {'a': attention(('frames',), (1, 3), rows=(4, 6, 9))}
  shown = attention_json.describe('a', maps, Decoded({}))
  assert shown['frames'] == [{'time': None, 'picture': None}] * 3
  assert shown['maps'][0]['frames'] == [0, 1, 2]


def test_a_picture_is_one_frame_however_often_it_was_sampled():
  maps = {'a': attention(('frames',), (1, 3), rows=(0, 1, 2))}
  shown = attention_json.describe('', maps, Decoded({}, pictures={0.0: 'uri'}))
  assert shown['frames'] == [{'time': None, 'picture': 'uri'}]
  assert (shown['maps'][0]['frames'], shown['words']) == ([0, 0, 0], [])
