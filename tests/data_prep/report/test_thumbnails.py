"""Thumbnails, found by name, and what cannot be decoded."""

import pytest

from data_prep.report import thumbnails
from tests.data_prep.report.test_page import write_video

av = pytest.importorskip('av')


def test_thumbnails_by_other_names(tmp_path):
  for name in ('clip_b', 'x'):
    write_video(tmp_path / f'{name}.mp4', frames=2)
  (tmp_path / 'clip_b.jpg').touch()  # a video has precedence
  found = thumbnails.find_files(tmp_path, ['vid1', 'x', 'y'], {'vid1': 'clip_b'})
  assert found == {'vid1': str(tmp_path / 'clip_b.mp4'), 'x': str(tmp_path / 'x.mp4')}
  pictures = thumbnails.make_thumbnails(tmp_path, ['x'], {}).pictures['x']
  assert len(pictures) == thumbnails.FRAMES
