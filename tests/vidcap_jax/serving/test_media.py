"""What an uploaded file is, whether it is too large, and what is read of it."""

import dataclasses
import pathlib

import numpy as np
import pytest

from tests.video_files import gray, ramp, write_video
from vidcap_jax.errors import VideoError
from vidcap_jax.features import video_decoder
from vidcap_jax.inference.inputs import find_inputs
from vidcap_jax.serving import media
from vidcap_jax.serving.errors import ApiError

CONTAINERS = {'mp4': '.mp4', 'mov': '.mp4', 'matroska': '.mkv', 'avi': '.avi', 'gif': '.gif'}


@pytest.fixture
def source(service):
  return service.source


def limited(source, **limits):
  return dataclasses.replace(source, limits=dataclasses.replace(source.limits, **limits))


@pytest.mark.parametrize('container', [*CONTAINERS, 'mpegts', 'mpeg', 'flv'])
def test_clips_are_known_by_their_first_bytes(tmp_path, container):
  codec = {'gif': 'gif', 'mpegts': 'mpeg2video', 'mpeg': 'mpeg2video', 'flv': 'flv'}
  try:
    path = write_video(
      tmp_path / 'clip', ramp(3), container=container, codec=codec.get(container, 'mpeg4')
    )
  except ValueError:
    pytest.skip('FFmpeg has no such encoder')
  endings = {**CONTAINERS, 'mpegts': '.ts', 'mpeg': '.mpg', 'flv': '.flv'}
  assert media.ending_of(path.read_bytes()[: media.START_BYTES]) == endings[container]


@pytest.mark.parametrize('form', ['JPEG', 'PNG', 'WEBP'])
def test_pictures_are_known_by_their_first_bytes(tmp_path, form):
  image = pytest.importorskip('PIL.Image')
  image.fromarray(gray(9)).save(tmp_path / 'picture', form)
  start = (tmp_path / 'picture').read_bytes()[: media.START_BYTES]
  assert media.ending_of(start) == {'JPEG': '.jpg'}.get(form, f'.{form.lower()}')


@pytest.mark.parametrize(
  'start', [b'', b'#EXTM3U\n', b'RIFF1234WAVE', b'%PDF', b'<svg', b'GG', b'\x7fELF', b'PK\x03\x04']
)
def test_other_files_are_known_too(start):
  assert media.ending_of(start) is None


def test_features_are_those_of_predict_with_times_and_pictures(source, workspace):
  path = workspace / 'clip.mp4'
  decoded = media.read(path, 'mine.mp4', source, with_pictures=True)
  [given] = find_inputs(source.provenance, [str(path)])
  for name, array in given.load([]).features.items():
    np.testing.assert_array_equal(decoded.features[name], array)
  times = decoded.times['image']
  assert len(times) == len(decoded.features['image'])
  assert {*decoded.pictures} == {*times}
  without = media.read(path, 'mine.mp4', source, with_pictures=False)
  assert (without.times, without.pictures) == ({}, {})


def test_messages_have_the_name_of_the_client_and_no_path(source, tmp_path):
  path = tmp_path / '0.mp4'
  path.write_bytes(b'\0\0\0\x18ftypmp42' + bytes(99))
  with pytest.raises(ApiError) as error:
    media.read(path, 'mine.mp4', source, with_pictures=False)
  assert error.value.code == 'bad_file'
  assert 'mine.mp4' in error.value.message
  assert str(tmp_path) not in error.value.message


def test_a_damaged_clip_has_notes_without_a_path(source, tmp_path):
  images = np.random.default_rng(0).integers(0, 255, (40, 48, 64, 3), np.uint8)
  path = write_video(tmp_path / '0.avi', list(images), container='avi')
  content = path.read_bytes()
  path.write_bytes(content[: len(content) * 2 // 3])
  decoded = media.read(path, 'mine.avi', source, with_pictures=True)
  assert decoded.notes
  assert all('mine.avi' in note and str(tmp_path) not in note for note in decoded.notes)


def test_too_long_clips(source, tmp_path):
  path = write_video(tmp_path / '0.mp4', ramp(40))  # four seconds
  with pytest.raises(ApiError, match=r'mine.*3 seconds') as error:
    media.read(path, 'mine.mp4', limited(source, clip_seconds=3.0), with_pictures=False)
  assert (error.value.status, error.value.code) == (413, 'too_long')
  media.read(path, 'mine.mp4', limited(source, clip_seconds=5.0), with_pictures=False)


def test_a_header_that_declares_too_few_seconds_does_not_help(source, tmp_path):
  path = write_video(tmp_path / '0.ts', ramp(40), container='mpegts', codec='mpeg2video')
  with pytest.raises(ApiError) as error:
    media.read(path, 'mine.ts', limited(source, clip_seconds=3.0), with_pictures=False)
  assert error.value.code == 'too_long'


@pytest.mark.parametrize(('rows', 'columns'), [(200, 200), (2, 102)])
def test_too_large_frames(source, tmp_path, rows, columns):
  image = pytest.importorskip('PIL.Image')
  image.fromarray(gray(9, rows, columns)).save(tmp_path / '0.png')
  with pytest.raises(ApiError, match=f'{columns} x {rows}') as error:
    media.read(tmp_path / '0.png', 'mine.png', limited(source, pixels=39_999), False)
  assert (error.value.status, error.value.code) == (413, 'too_large')


def test_playlists_are_not_opened(monkeypatch, workspace, tmp_path):
  monkeypatch.setattr(video_decoder, '_OPTIONS', {})
  video_decoder.allow_formats(media.FORMATS)
  av = video_decoder.import_av()
  clip = workspace / 'clip.mp4'
  texts = {
    'list.m3u8': f'#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:1,\n{clip}\n#EXT-X-ENDLIST\n',
    'list.ffconcat': f'ffconcat version 1.0\nfile {clip}\n',
  }
  for name, text in texts.items():
    (tmp_path / name).write_text(text)
    with pytest.raises(VideoError, match=name):
      video_decoder.open_file(av, tmp_path / name)
  with video_decoder.open_file(av, clip) as container:
    assert container.streams.video


def test_unexpected_errors_have_no_details(source, workspace, monkeypatch):
  def fail(*_):
    raise RuntimeError(f'{pathlib.Path.home()}/secret')

  monkeypatch.setattr(media, 'find_inputs', fail)
  with pytest.raises(ApiError) as error:
    media.read(workspace / 'clip.mp4', 'mine.mp4', source, with_pictures=False)
  assert error.value.code == 'decoding_failed'
  assert 'secret' not in error.value.message
