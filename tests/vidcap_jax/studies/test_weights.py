"""Weights at the words of captions: those of teacher forcing, without padding."""

import dataclasses
import types

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.cases import CASES
from tests.exported import restored_of, videos_of
from vidcap_jax import models
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.schema import Stream
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.inference import captioning
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Needs, bind
from vidcap_jax.models.streams import to_inputs
from vidcap_jax.studies import weights
from vidcap_jax.studies.weights import Attention


@pytest.fixture(scope='module')
def split(tiny_data):
  source = open_split(tiny_data, 'val')
  return [source[i] for i in range(len(source))]


@pytest.fixture(scope='module')
def explained(restored, split):
  return weights.explain(restored, split)


def test_captions_are_those_of_the_decoder(restored, split, explained):
  captions = captioning.captioner_of(restored)(split, [video.video_id for video in split])
  assert [(e.video.video_id, e.caption) for e in explained] == [
    (c['video_id'], c['caption']) for c in captions
  ]
  np.testing.assert_allclose(
    [e.log_prob for e in explained], [c['log_prob'] for c in captions], rtol=1e-5
  )


def test_every_frame_of_a_video_has_a_weight_and_padding_none(split, explained):
  assert len({len(video.features['image']) for video in split}) > 1
  for video, result in zip(split, explained):
    temporal = result.attentions['temporal']
    assert temporal.weights.shape == (len(result.words), len(video.features['image']))
    np.testing.assert_allclose(temporal.weights.sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(temporal.rows, np.arange(len(video.features['image'])))


def test_weights_are_those_of_teacher_forcing(restored, split):
  (_, batch), *_ = captioning.batches_of(restored, split)

  @jax.jit
  def direct(params):
    captioner = bind(restored.module, params)
    inputs = to_inputs(batch, restored.streams, restored.config.data.standardise)
    memory = captioner.encode(inputs, None, train=False)
    return teacher_forcing(captioner, memory, batch['captions'], attention=True).attention

  expected = direct(restored.params)['temporal']  # (L, B, S, T)
  found = dict(weights.read_weights(restored, [(0, batch)]))
  assert sorted(found) == list(range(len(split)))
  for index, by_name in found.items():
    np.testing.assert_allclose(by_name['temporal'], expected[:, index, 0], rtol=1e-5)


def test_given_captions_of_any_length(restored, split, explained):
  own = {e.video.video_id: e.caption for e in explained}
  again = weights.explain(restored, split, own)
  for one, other in zip(explained, again):
    assert one.words == other.words
    np.testing.assert_allclose(
      one.attentions['temporal'].weights, other.attentions['temporal'].weights, rtol=1e-5
    )
  words = 'a red zebra rises ' * 10
  long = weights.explain(restored, split[:1], {split[0].video_id: words})[0]
  assert len(long.words) == 40
  assert long.words[2] == '<UNK>'
  assert long.log_prob is None
  assert weights.unknown_words(restored, 'a red zebra') == ['zebra']


def test_an_empty_caption_has_no_weights(restored, split):
  (result,) = weights.explain(restored, split[:1], {split[0].video_id: ''})
  assert result.words == ()
  assert result.attentions['temporal'].weights.shape[0] == 0


def test_a_model_without_attention_says_so(restored):
  module = models.build({**restored.config.model, 'variant': 'vanilla'}, len(restored.vocabulary))
  vanilla = dataclasses.replace(restored, module=module)
  with pytest.raises(ConfigError, match="temporal_spatial.*variant='vanilla'.*attention"):
    weights.declared_axes(vanilla)
  assert weights.axes_of(vanilla) == {}


def test_a_model_without_captions_is_refused(restored):
  settings = {'name': 'embedding', 'streams': ('image',)}
  embedding = dataclasses.replace(restored, module=models.build(settings, len(restored.vocabulary)))
  with pytest.raises(ConfigError, match='makes none'):
    weights.declared_axes(embedding)


def test_an_attention_of_several_heads_to_several_streams():
  """The heads' mean and each head, stream by stream; frames without padding."""
  case = next(case for case in CASES if case.name == 'transformer_all_kinds')
  restored = restored_of(case)
  videos = videos_of(restored, (2, 3))
  for video, result in zip(videos, weights.explain(restored, videos, heads=True)):
    found, frames = result.attentions, len(video.features['image'])
    mean = [f'{stream}/cross' for stream in ('image', 'i3d', 'boxes')]
    expected = ['cross by stream', *mean]
    for head in ('head 1', 'head 2'):
      expected += [f'cross, {head} by stream', *(f'{name}, {head}' for name in mean)]
    assert list(found) == expected
    L = len(result.words)
    shapes = {'image/cross': (frames,), 'i3d/cross': (frames, 3), 'boxes/cross': (frames, 4)}
    for name, shape in shapes.items():
      assert found[name].weights.shape[:2] == (L, frames)
      assert found[name].weights.ndim == 1 + len(shape)
      both = [found[f'{name}, head {n}'].weights for n in (1, 2)]
      np.testing.assert_allclose(found[name].weights, np.mean(both, axis=0), rtol=1e-5)
    shares = found['cross by stream']
    assert shares.axes.names == ('image', 'audio', 'i3d', 'boxes')
    np.testing.assert_allclose(shares.weights.sum(axis=-1), 1, rtol=1e-5)
    for column, name in ((0, 'image/cross'), (2, 'i3d/cross'), (3, 'boxes/cross')):
      total = found[name].weights.reshape(L, -1).sum(axis=-1)
      np.testing.assert_allclose(total, shares.weights[:, column], rtol=1e-5)
  assert set(weights.explain(restored, videos)[0].attentions) == {'cross by stream', *mean}


def test_weights_summed_over_other_axes():
  stored = np.arange(24.0).reshape(2, 3, 4)
  attention = Attention('a', AttentionAxes(('frames', 'places'), 'x'), stored, np.arange(3))
  np.testing.assert_array_equal(attention.over('frames'), stored.sum(2))
  with pytest.raises(UserError, match="'a' .*'framez'.* frames, places"):
    attention.over('framez')
  picks = Attention('a', AttentionAxes(('picks', 'frames'), 'x'), stored, np.arange(4))
  np.testing.assert_array_equal(picks.over('frames'), stored)


def test_frames_of_joined_streams_are_those_of_the_longest():
  streams = tuple(Stream(name, 'sequence', (None, 2), longest=9) for name in ('image', 'motion'))
  needs = Needs(dict.fromkeys(('image', 'motion'), ('sequence',)))
  restored = types.SimpleNamespace(
    streams=streams,
    config=ConfigDict({'data': {'max_frames': 0}}),
    module=types.SimpleNamespace(config=types.SimpleNamespace(needs=needs)),
  )
  video = Video('v', (), {'image': np.zeros((3, 2)), 'motion': np.zeros((5, 2))})
  axes = AttentionAxes(('frames',), 'image')
  assert weights._with_frames(restored, axes, 3, video).stream == 'image'
  assert weights._with_frames(restored, axes, 5, video).stream == 'motion'


def test_padding_is_cut_after_the_last_valid_or_used_entry():
  cut = weights._without_padding(np.array([[0.5, 0, 0.5, 0, 0]]), 1, np.array([True] * 4 + [False]))
  assert cut.shape == (1, 4)
  cut = weights._without_padding(np.array([[0.5, 0, 0, 0.5, 0]]), 1, np.array([True, False]))
  assert cut.shape == (1, 4)
