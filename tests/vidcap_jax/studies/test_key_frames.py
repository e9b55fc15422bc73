"""Key frames before and after refocusing, with both captions, and those picked by word."""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from vidcap_jax import models
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import init_params
from vidcap_jax.models.streams import example_inputs
from vidcap_jax.studies import key_frames, weights
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained

REFOCUS = {'name': 'refocus', 'stream': 'image', 'spatial_stream': '', 'audio_stream': ''}
REFOCUS |= {'hidden': 8, 'embed': 8, 'attention': 5}


@pytest.fixture(scope='module')
def refocused(restored):
  """A refocus model with random parameters, in place of the tiny run's model."""

  def build(passes):
    config = ConfigDict(restored.config.to_dict())
    config.model = ConfigDict({**REFOCUS, 'passes': passes})
    module = models.build(config.model, len(restored.vocabulary))
    inputs = example_inputs(restored.streams, config, module.config.needs)
    shapes = jax.eval_shape(functools.partial(init_params, module), jax.random.key(0), inputs)
    rng = np.random.default_rng(1)
    params = jax.tree.map(lambda x: rng.normal(size=x.shape).astype(x.dtype), shapes)
    return dataclasses.replace(restored, config=config, module=module, params=params)

  return build


@pytest.fixture(scope='module')
def chosen(tiny_data):
  source = open_split(tiny_data, 'val')
  return [Chosen(source[i]) for i in range(len(source))]


@pytest.fixture(scope='module')
def choices(refocused, chosen):
  return key_frames.choose(refocused(2), chosen)


def test_both_passes_and_their_key_frames(refocused, chosen, choices):
  first = weights.explain(key_frames.after_first_pass(refocused(2)), [c.video for c in chosen])
  assert [choice.first for choice in choices] == [e.caption for e in first]
  for choice, video in zip(choices, chosen):
    alpha = choice.attention.weights
    assert choice.middle == len(video.video.features['image']) // 2
    assert list(choice.frames) == [alpha[0].argmax()]
    np.testing.assert_allclose(alpha, alpha[:1].repeat(len(alpha), 0))


def test_key_frames_that_were_fixed_in_training(refocused, chosen):
  fixed = dataclasses.replace(refocused(2), meta={'key_frames': {chosen[0].video.video_id: 1}})
  assert list(key_frames.choose(fixed, chosen[:1])[0].frames) == [1]


def test_models_that_choose_none(refocused, restored):
  with pytest.raises(ConfigError, match='temporal_spatial.*: temporal$'):
    key_frames.check_chooses(restored)
  with pytest.raises(ConfigError, match=r'refocus.*passes=1.*temporal$'):
    key_frames.check_chooses(refocused(1))
  with pytest.raises(ConfigError, match='pass=first'):
    key_frames.check_chooses(key_frames.after_first_pass(refocused(2)))
  key_frames.check_chooses(refocused(2))


def test_frames_picked_for_words(chosen):
  picks = np.eye(4)[[[3, 0], [3, 3]]]  # (L, K, T)
  attention = Attention(
    'keyframe', AttentionAxes(('picks', 'frames'), 'image'), picks, np.arange(4)
  )
  explained = Explained(chosen[0].video, ('a', 'ball'), {'keyframe': attention})
  assert key_frames._picked(explained) == {0: ['a'], 3: ['a', 'ball']}


def test_the_files(refocused, chosen, choices, tiny_run, tiny_data, tmp_path, monkeypatch):
  monkeypatch.setattr(key_frames.restore, 'restore', lambda *_: refocused(2))
  monkeypatch.setattr(key_frames, 'choose', lambda *_: choices)
  output = tmp_path / 'out'
  key_frames.main(
    [f'--checkpoint={tiny_run}', f'--data={tiny_data}', '--split=val', f'--output={output}']
  )
  entries = json.loads((output / 'key_frames.json').read_text())['videos']
  assert [e['video_id'] for e in entries] == [c.video.video_id for c in chosen]
  page = (output / 'index.html').read_text()
  for entry, choice in zip(entries, choices):
    assert (entry['first_caption'], entry['caption']) == (choice.first, choice.explained.caption)
    assert entry['first_caption'] in page
    assert (output / entry['picture']).is_file()
    assert [k['row'] for k in entry['key_frames']] == list(choice.frames)
