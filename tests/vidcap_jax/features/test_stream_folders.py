"""Errors in the program are distinguished from damaged files."""

import pytest

from vidcap_jax.features import stream_folders, video
from vidcap_jax.features.stream_folders import CallError, stop_on_call_errors

CALL = "TypeError: open() got an unexpected keyword argument 'metadata_errors'"


def taken(*reasons):
  return list(stop_on_call_errors(enumerate(reasons), lambda reason: reason))


@pytest.mark.parametrize('count', [1, 3, 600])
def test_call_errors_of_all_first_inputs_stop_the_run(count):
  with pytest.raises(CallError, match='metadata_errors'):
    taken(*[CALL] * count)


def test_other_failures_and_later_call_errors_do_not_stop_it():
  for reasons in (['a.mp4: the file is empty'] * 5, ['', *[CALL] * 9], [CALL, CALL, '', CALL], []):
    assert taken(*reasons) == list(enumerate(reasons))


def test_extraction_stops_with_the_call_error(tmp_path, monkeypatch):
  from vidcap_jax.features import extract_folder, extraction, extractors

  def fails(*_):
    raise TypeError('unexpected keyword argument')

  monkeypatch.setattr(extraction, 'extract_video', fails)
  monkeypatch.setattr(extractors, 'load', lambda names: None)
  streams = {'image': extractors.describe('efficientnet_lite0', {'uniform': 2})}
  files = {f'v{i}': tmp_path / f'v{i}.mp4' for i in range(9)}
  with pytest.raises(CallError, match='3 inputs.*TypeError: unexpected keyword'):
    extract_folder.extract(files, streams, tmp_path / 'out', workers=1)


def test_a_damaged_file_is_no_call_error():
  assert not stream_folders.failure_reason(video.VideoError('a.mp4: empty')).startswith('TypeError')
