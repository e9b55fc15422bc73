"""The tagger on captions tagged by hand."""

import sys

import pytest

from tests.vidcap_jax.studies.tagged_captions import CAPTIONS
from vidcap_jax.studies import parts_of_speech


def test_accuracy():
  tag = parts_of_speech.load_tagger()
  pairs = [
    (found, truth)
    for caption in CAPTIONS
    for found, (_, truth) in zip(tag([w for w, _ in caption]), caption, strict=True)
  ]
  right = sum(found == truth for found, truth in pairs)
  assert len(pairs) > 300
  assert right / len(pairs) == pytest.approx(0.988, abs=5e-4)  # what the module says


def test_an_empty_caption():
  assert parts_of_speech.load_tagger()([]) == []


def test_without_the_extra(monkeypatch):
  monkeypatch.setitem(sys.modules, 'HanTa', None)
  parts_of_speech.load_tagger.cache_clear()
  with pytest.raises(ModuleNotFoundError, match='tagger'):
    parts_of_speech.load_tagger()
