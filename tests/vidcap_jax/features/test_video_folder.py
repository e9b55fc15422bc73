"""Finding the video files of a folder."""

import pytest

from vidcap_jax.errors import DataError
from vidcap_jax.features.video_folder import find_videos


def test_videos_in_subfolders_by_id(tmp_path):
  for name in ('b.mp4', 'a.MKV', 'deep/c.v2.webm', 'notes.txt', 'd.npy'):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
  (tmp_path / 'folder.mp4').mkdir()
  assert find_videos(str(tmp_path)) == {
    'a': tmp_path / 'a.MKV',
    'b': tmp_path / 'b.mp4',
    'c.v2': tmp_path / 'deep' / 'c.v2.webm',
  }


def test_errors_name_the_folder_or_files(tmp_path):
  with pytest.raises(DataError, match=f'{tmp_path}/none'):
    find_videos(tmp_path / 'none')
  (tmp_path / 'a.txt').touch()
  with pytest.raises(DataError, match=f'{tmp_path}/a.txt: .*file'):
    find_videos(tmp_path / 'a.txt')
  with pytest.raises(DataError, match=rf'{tmp_path}: .*\.mp4'):
    find_videos(tmp_path)
  for name in ('a.mp4', 'a.avi'):
    (tmp_path / name).touch()
  with pytest.raises(DataError, match=r"a\.mp4 .*a\.avi: .*'a'"):
    find_videos(tmp_path)
