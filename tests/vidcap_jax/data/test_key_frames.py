"""Saved key frames are attached to videos."""

import pytest

from tests import tiny
from vidcap_jax.data import key_frames
from vidcap_jax.data.records import Video


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


# ---------------------------------------------------------------- the source


def test_attach():
  videos = [Video('a', (), {}), Video('b', (), {})]
  assert key_frames.attach(videos, {}) is videos
  source = key_frames.attach(videos, {'b': 3, 'c': 4})
  assert [(source[i].video_id, source[i].key_frame) for i in range(len(source))] == [
    ('a', -1),
    ('b', 3),
  ]
