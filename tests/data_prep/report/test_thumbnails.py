"""Thumbnails, found by name, and what cannot be decoded."""

import pytest

from data_prep.report import thumbnails
from tests.data_prep.report.test_page import write_video

av = pytest.importorskip('av')


def test_thumbnails_of_the_videos_found(tmp_path):
  write_video(tmp_path / 'x.mp4', frames=2)
  result = thumbnails.make_thumbnails(tmp_path, ['x', 'y'], {})
  assert {name: len(pictures) for name, pictures in result.pictures.items()} == {
    'x': thumbnails.FRAMES
  }
  assert 'y' in ' '.join(result.notes)
