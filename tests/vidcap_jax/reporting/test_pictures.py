import dataclasses
import re

import numpy as np
import pytest

from tests import video_files
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import VideoError
from vidcap_jax.features import picture_files, video_stills
from vidcap_jax.reporting import pictures


@pytest.fixture
def folder(tmp_path):
  (tmp_path / 'pictures').mkdir()
  return tmp_path


def size_of(path) -> tuple[int, int]:
  image_module, _ = picture_files.import_pillow()
  with image_module.open(path) as image:
    return image.size


def test_a_strip_of_a_clip_and_of_a_picture(folder):
  clip = folder / 'clip.mp4'
  video_files.write_video(clip, video_files.ramp(20))
  assert pictures.write_strip(folder, 7, clip, []) == (4 * 128, 96)
  assert size_of(folder / pictures.strip_name(7)) == (4 * 128, 96)
  still = folder / 'still.jpg'
  still.write_bytes(video_stills.jpeg(video_files.gray(90)))
  assert pictures.write_strip(folder, 8, still, []) == (128, 96)
  assert size_of(folder / pictures.strip_name(8)) == (128, 96)


def test_a_strip_of_a_folder_of_frames(folder):
  (folder / 'frames' / 'v1').mkdir(parents=True)
  for i in range(9):
    (folder / 'frames' / 'v1' / f'{i:03}.jpg').write_bytes(video_stills.jpeg(video_files.gray(i)))
  [source] = video_stills.find_sources(folder / 'frames', ['v1']).values()
  assert pictures.write_strip(folder, 3, source, []) == (4 * 128, 96)
  assert size_of(folder / pictures.strip_name(3)) == (4 * 128, 96)


def test_a_file_that_is_no_video(folder):
  (folder / 'broken.mp4').write_bytes(b'no video')
  with pytest.raises(VideoError):
    pictures.write_strip(folder, 1, folder / 'broken.mp4', [])


def test_frames_that_the_model_has_read(folder, restored):
  clip = folder / 'clip.mp4'
  video_files.write_video(clip, video_files.ramp(20))
  [stream] = restored.streams
  video = Video('</script>', (), {stream.name: np.zeros((3, 8), np.float32)})
  frames = [(stream.name, row) for row in range(3)]
  notes = []
  made = pictures.FramePictures(restored, folder, notes=notes)
  shown = made.write(5, video, clip, frames)
  times = [shown[frame]['time'] for frame in frames]
  assert times == sorted(times)
  assert None not in times
  assert len({shown[frame]['picture'] for frame in frames}) == 3
  assert all((folder / shown[frame]['picture']).is_file() for frame in frames)
  without = made.write(5, video, None, frames)
  assert {entry['picture'] for entry in without.values()} == {None}
  (folder / 'broken.mp4').write_bytes(b'no video')
  broken = made.write(5, video, folder / 'broken.mp4', frames)
  assert {entry['picture'] for entry in broken.values()} == {None}
  assert '</script>' in notes[-1]


@pytest.fixture
def with_regions(restored):
  """The tiny run's checkpoint with a stream of regions besides."""
  regions = Stream('objects', 'regions', (None, None, 4))
  return dataclasses.replace(restored, streams=(*restored.streams, regions))


def test_boxes_and_whole_frames_of_regions(folder, with_regions):
  clip = folder / 'clip.mp4'
  video_files.write_video(clip, video_files.ramp(20))
  where = np.zeros((2, 2, 6), np.float16)
  where[0, 0, :4] = 0.25, 0.5, 1.05, 1  # a little over the edge
  streams = {'image': np.zeros((3, 8)), 'objects': np.zeros((2, 2, 4)), 'where': where}
  made = pictures.FramePictures(with_regions, folder, 'where')
  frames = [('image', 0), ('objects', 0), ('objects', 1)]
  shown = made.write(5, Video('v', (), streams), clip, frames)
  assert [shown[frame]['boxes'] for frame in frames] == [
    None,
    [[250, 500, 1000, 1000], None],
    [None, None],
  ]
  sizes = [size_of(folder / shown[frame]['picture']) for frame in frames]
  assert sizes == [(160, 160), (212, 160), (212, 160)]


@pytest.mark.parametrize(
  ('where', 'words'),
  [(np.zeros((5, 2, 6)), 'where.*objects'), (np.full((2, 2, 6), 64), 'where.*64')],
)
def test_boxes_that_fit_no_region_are_left_out_with_a_note(folder, with_regions, where, words):
  streams = {'image': np.zeros((3, 8)), 'objects': np.zeros((2, 2, 4)), 'where': where}
  notes = []
  made = pictures.FramePictures(with_regions, folder, 'where', notes)
  shown = made.write(5, Video('v7', (), streams), None, [('objects', 0)])
  assert shown['objects', 0]['boxes'] is None
  [note] = notes
  assert re.search(f'v7.*{words}', note)


def test_the_only_frame_is_larger(folder, restored):
  still = folder / 'still.jpg'
  still.write_bytes(video_stills.jpeg(video_files.gray(90, 480, 640)))
  made = pictures.FramePictures(restored, folder)
  shown = made.write(5, Video('v', (), {'image': np.zeros((1, 8))}), still, [('image', 0)])
  assert size_of(folder / shown['image', 0]['picture']) == (320, 320)
