"""Annotations, independent of their form."""

import pytest

from tests.vidcap_jax.annotations.written import refused, write
from vidcap_jax.annotations.model import normalize_split
from vidcap_jax.errors import DataError


def test_a_video_has_one_category(tmp_path):
  rows = '{"id": "a", "category": 1}\n{"id": "a", "category": "1"}\n{"id": "a", "category": 2}'
  refused('jsonl', write(tmp_path / 'a.jsonl', rows), "line 3: video 'a' is of category 2 here and")


def test_split_names():
  for name in ('val', 'Valid', 'validation', 'validate', 'dev', ' VAL '):
    assert normalize_split(name) == 'val'
  assert normalize_split('train') == normalize_split('training') == 'train'
  assert normalize_split('test') == normalize_split('Testing') == 'test'
  assert normalize_split('public_test') == 'public_test'
  for name in ('', 'a/b', '1k', 'a b'):
    with pytest.raises(DataError, match='split name'):
      normalize_split(name)
