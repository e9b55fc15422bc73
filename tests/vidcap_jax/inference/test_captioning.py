"""Captions from a restored checkpoint, with various decoding settings."""

import itertools
import types

import numpy as np
import pytest

from vidcap_jax import progress
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import ConfigError
from vidcap_jax.inference import captioning


def decoded(restored, data, *changes):
  again = restore.restore(restored.path, restored.mesh, changes)
  captions = captioning.captioner_of(again)(open_split(data, 'val'), ['v7', 'v8', 'v9'])
  return again.config.decode, [c['caption'] for c in captions]


def test_changed_decoding(restored, tiny_data):
  settings, greedy = decoded(restored, tiny_data)
  assert settings.method == 'greedy'
  settings, beam = decoded(restored, tiny_data, 'method=beam', 'beam=1')
  assert (settings.method, settings.beam) == ('beam', 1)
  assert beam == greedy
  settings, long = decoded(restored, tiny_data, 'min_length=6', 'no_repeat_ngram=1')
  words = [caption.split() for caption in long]
  assert all(len(w) >= 6 and len(set(w)) == len(w) for w in words)


def test_groups_of_beams(restored, tiny_data):
  settings = ['method=beam', 'beam=4', 'n_best=2', 'diversity=50']
  again = restore.restore(restored.path, restored.mesh, [*settings, 'groups=2'])
  made = captioning.captioner_of(again)(open_split(tiny_data, 'val'), ['v7', 'v8', 'v9'])
  for video in made:
    first, second = (c['caption'].split() for c in video['captions'])
    assert first[0] != (second or [''])[0]


@pytest.mark.slow
def test_forced_words(restored, tiny_data):
  source, ids = open_split(tiny_data, 'val'), ['v7', 'v8', 'v9']
  again = restore.restore(restored.path, restored.mesh, ['method=beam', 'force=Fast,that,fast'])
  one, several = captioning.captioner_of(again), captioning.ensemble_of([again, again])
  for caption in (one, several.caption):
    made = caption(source, ids)
    assert all({'fast', 'that'} <= set(c['caption'].split()) for c in made)


@pytest.mark.parametrize(
  ('words', 'message'),
  [
    ('bal', "force: 'bal' .*vocabulary.* ball"),
    ('zzz', "force: 'zzz' .*vocabulary$"),
    ('one,red ball', r"force: 'red ball' is 2 words .*\(red, ball\)"),
    ('?', r"force: '\?' is 0 words"),
    ('a,red,ball,one,fast', 'force: 5 words .*4'),
  ],
)
def test_words_that_cannot_be_forced(restored, words, message):
  again = restore.restore(restored.path, restored.mesh, ['method=beam', f'force={words}'])
  for make in (captioning.captioner_of, lambda one: captioning.ensemble_of([one, one])):
    with pytest.raises(ConfigError, match=message):
      make(again)


def test_every_video_once_whatever_the_batch_size(restored, tiny_data):
  source = open_split(tiny_data, 'train')
  ids = [source[i].video_id for i in range(len(source))]
  expected = captioning.captioner_of(restored, 8)(source, ids)
  for size in (3, 16):
    found = captioning.captioner_of(restored, size)(source, ids)
    assert [(c['video_id'], c['caption']) for c in found] == [
      (c['video_id'], c['caption']) for c in expected
    ]
    np.testing.assert_allclose(
      [c['log_prob'] for c in found], [c['log_prob'] for c in expected], rtol=1e-5
    )


def test_process_0_shows_progress(restored, tiny_data, monkeypatch, capsys):
  videos, ticks = list(open_split(tiny_data, 'train')) * 3, itertools.count(0, 20)
  clock = types.SimpleNamespace(monotonic=lambda: next(ticks))
  monkeypatch.setattr(progress, 'time', clock)
  assert len(list(captioning.batches_of(restored, videos, 8))) == 3
  assert capsys.readouterr().err == ''  # nobody asked
  assert len(list(captioning.batches_of(restored, videos, 8, 'captioning'))) == 3
  assert capsys.readouterr().err.splitlines() == [
    'captioning: 0/21 videos, compiling',
    'captioning: 16/21 videos, 0.4/s, 12s left',
    'captioning: 21/21 videos, 0.3/s, 0s left',
  ]
  monkeypatch.setattr(captioning, 'is_main', lambda: False)
  assert len(list(captioning.batches_of(restored, videos, 8, 'captioning'))) == 3
  assert capsys.readouterr().err == ''
