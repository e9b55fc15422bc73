"""Frames by time stamp, and upright."""

import struct

import numpy as np
import pytest

from tests import video_files
from tests.video_files import gray, levels_of, write_video
from vidcap_jax.features import video


@pytest.fixture
def ramp(tmp_path):
  """40 frames, 4 seconds."""
  return write_video(tmp_path / 'ramp.mp4', video_files.ramp())


def test_uniform_takes_the_middles_of_equal_parts(ramp):
  frames = list(video.sample(ramp, {'uniform': 4}, 32))
  assert levels_of(frames) == [5, 15, 25, 35]
  assert [f.time for f in frames] == pytest.approx([0.5, 1.5, 2.5, 3.5], abs=0.01)
  assert frames[0].image.shape == (32, 32, 3)
  assert frames[0].image.dtype == np.uint8


def test_every_takes_each_nth_frame(ramp):
  frames = list(video.sample(ramp, {'every': 15}, 32))
  assert levels_of(frames) == [0, 15, 30]
  assert [f.time for f in frames] == pytest.approx([0.0, 1.5, 3.0])


def test_fps_follows_time_not_frames(tmp_path):
  # Two frames a second at first, then ten, then two.
  times = [0, 5, *range(10, 20), 20, 25, 30]
  path = write_video(tmp_path / 'uneven.mp4', video_files.ramp(15), times=times)
  assert levels_of(video.sample(path, {'fps': 1}, 32)) == [0, 2, 12, 14]
  # More than there are: what is on screen is repeated.
  assert levels_of(video.sample(path, {'fps': 4}, 32)) == [
    0,
    0,
    1,
    1,
    2,
    4,
    7,
    9,
    12,
    12,
    13,
    13,
    14,
  ]


def test_fps_ends_with_the_video(ramp):
  assert levels_of(video.sample(ramp, {'fps': 1}, 32)) == [0, 10, 20, 30]


def test_uniform_repeats_frames_of_a_short_video(tmp_path):
  path = write_video(tmp_path / 'short.mp4', [gray(10), gray(60)])
  assert levels_of(video.sample(path, {'uniform': 6}, 32)) == [0, 0, 0, 10, 10, 10]
  single = write_video(tmp_path / 'single.mp4', [gray(60)])
  assert levels_of(video.sample(single, {'uniform': 3}, 32)) == [10, 10, 10]


def test_frames_are_scaled_and_cropped_to_the_centre(tmp_path):
  image = gray(0, 48, 96)
  image[:, 24:72] = 255  # the middle square
  path = write_video(tmp_path / 'wide.mp4', [image])
  (frame,) = video.sample(path, {'every': 1}, 24)
  assert frame.image.shape == (24, 24, 3)
  assert frame.image[:, 2:-2].min() > 200


MATRICES = {
  # Degrees clockwise to show it -> (a, b, c, d) of the track header's matrix.
  0: (1, 0, 0, 1),
  90: (0, 1, -1, 0),
  180: (-1, 0, 0, -1),
  270: (0, -1, 1, 0),
}


def set_rotation(path, clockwise: int):
  """Rewrites an mp4 file's display matrix."""
  data = bytearray(path.read_bytes())
  start = data.index(b'tkhd') + 4
  assert data[start] == 0  # version 0: the matrix is 40 bytes on
  a, b, c, d = (value << 16 for value in MATRICES[clockwise])
  struct.pack_into('>9i', data, start + 40, a, b, 0, c, d, 0, 0, 0, 1 << 30)
  path.write_bytes(bytes(data))


@pytest.mark.parametrize('clockwise', sorted(MATRICES))
def test_display_rotation_is_respected(tmp_path, clockwise):
  upright = gray(20, 64, 64)
  upright[:32, :32] = (250, 30, 30)  # red in the top left corner
  upright[:32, 32:] = (30, 30, 250)  # blue in the top right corner
  stored = np.rot90(upright, clockwise // 90)  # turned anticlockwise, to be turned back
  path = write_video(tmp_path / 'turned.mp4', [np.ascontiguousarray(stored)] * 3)
  set_rotation(path, clockwise)
  (frame,) = video.sample(path, {'uniform': 1}, 64)
  difference = np.abs(frame.image.astype(int) - upright)
  assert difference[4:28, 4:28].max() < 40
  assert difference[4:28, 36:60].max() < 40
  assert difference[36:60].max() < 40


def test_a_caller_may_stop_early(ramp):
  frames = video.sample(ramp, {'every': 1}, 32)
  assert levels_of([next(frames)]) == [0]
  frames.close()
