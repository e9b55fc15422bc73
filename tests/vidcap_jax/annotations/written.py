"""Writes annotation files for tests, and lists their videos."""

import json

import pytest

from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


def write(path, content):
  """A file of the given bytes or text, or of anything else as JSON; its path as text."""
  if not isinstance(content, (bytes, str)):
    content = json.dumps(content)
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return str(path)


def listing(annotations):
  return [(v.video_id, v.split, v.captions) for v in annotations.videos.values()]


def with_categories(annotations):
  return [(v.video_id, v.split, v.category, v.captions) for v in annotations.videos.values()]


def sources(annotations):
  return [v.source for v in annotations.videos.values()]


def refused(form, file, match, language=None):
  with pytest.raises(DataError, match=match) as caught:
    read_annotations(form, [file], language)
  assert file in str(caught.value)
