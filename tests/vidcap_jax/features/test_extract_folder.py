"""Files of a folder that are damaged, unexpected or of unknown origin."""

import numpy as np
import pytest

from tests.building import described
from vidcap_jax.features import extract_folder, extractors, stream_folders, video, video_folder


def test_damaged_files_are_reported_in_every_run(clips, tmp_path):
  data = bytearray(next(clips.glob('*.mp4')).read_bytes())
  start = data.index(b'mdat') + 4 + (data.index(b'moov') - data.index(b'mdat')) // 2
  data[start : start + 2000] = bytes(2000)
  (tmp_path / 'broken.mp4').write_bytes(bytes(data))
  paths, streams = video_folder.find_videos(tmp_path), described('random_vector')
  for expected in ({'extracted': ['broken']}, {'reused': ['broken']}):
    outcome = extract_folder.extract(paths, streams, tmp_path / 'out')
    assert {k: getattr(outcome, k) for k in expected} == expected
    assert list(outcome.damaged) == ['broken']
    assert not outcome.failed


def test_unexpected_errors_of_one_video_do_not_stop_the_run(paths, tmp_path, monkeypatch):
  read = video.read

  def fails_once(path, *arguments, **options):
    if path == next(iter(paths.values())):
      raise MemoryError('too big')
    return read(path, *arguments, **options)

  monkeypatch.setattr(video, 'read', fails_once)
  outcome = extract_folder.extract(paths, described('random_vector'), tmp_path)
  assert outcome.failed == {next(iter(paths)): 'MemoryError: too big'}
  assert len(outcome.extracted) == 3


def test_features_of_unknown_origin_are_not_mixed(paths, tmp_path):
  (tmp_path / 'image').mkdir()
  np.save(tmp_path / 'image' / 'x.npy', np.zeros(3))
  with pytest.raises(stream_folders.FolderError, match='without stream.json'):
    extract_folder.extract(paths, {'image': extractors.describe('random_vector')}, tmp_path)
