"""Swapping the features of videos, and the scores that are compared."""

import dataclasses

import pytest

from benchmarks import swapped_features
from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import metrics, swapped
from vidcap_jax.inference import captioning


def test_references_are_not_swapped(restored, tiny_data, monkeypatch):
  """A captioner that returns the first reference of the features scores less on swapped ones."""
  captions = {video.video_id: video.captions[0] for video in open_split(tiny_data, 'val')}

  def perfect_captioner(_):
    return lambda source, ids: [
      {'video_id': v, 'caption': captions[source[i].video_id]} for i, v in enumerate(ids)
    ]

  monkeypatch.setattr(restore, 'restore', lambda *_: restored)
  monkeypatch.setattr(captioning, 'captioner_of', perfect_captioner)
  with tiny.without_java():
    rows = {row.name: row for row in swapped_features.measure(str(restored.path), tiny_data, 'val')}
    references = {v.video_id: list(v.captions) for v in open_split(tiny_data, 'val')}
    hypotheses = [list(captions.values())[k] for k in swapped.partners(3)]
    expected = metrics.score(dict(zip(references, hypotheses)), references, ('CIDEr',))[0]['CIDEr']
  assert rows['swapped_CIDEr'].value == expected < rows['CIDEr'].value


def test_chinese_is_scored_by_character(restored, tiny_data, monkeypatch):
  def fail(references, *, by_character=False):
    raise UserError(f'by_character={by_character}')

  vocabulary = dataclasses.replace(restored.vocabulary, tokenizer='by_character')
  assert vocabulary.by_character
  chinese = dataclasses.replace(restored, vocabulary=vocabulary)
  monkeypatch.setattr(restore, 'restore', lambda *_: chinese)
  monkeypatch.setattr(metrics, 'prepare_references', fail)
  with pytest.raises(UserError, match='by_character=True'):
    swapped_features.measure(str(restored.path), tiny_data, 'val')
