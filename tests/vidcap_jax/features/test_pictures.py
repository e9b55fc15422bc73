"""Pictures are turned, mirrored and stretched as files say."""

import io
import struct
from fractions import Fraction

import numpy as np
import pytest

from tests.video_files import gray, write_video
from vidcap_jax.features import video

av = pytest.importorskip('av', reason='the extra "video" is not installed')

# (a, b, c, d): a stored pixel (x, y) is shown at (a x + c y, b x + d y); and the picture so shown.
MATRICES = {
  'as stored': ((1, 0, 0, 1), lambda x: x),
  'mirrored': ((-1, 0, 0, 1), np.fliplr),
  'upside down': ((1, 0, 0, -1), np.flipud),
  'turned by 180 degrees': ((-1, 0, 0, -1), lambda x: np.rot90(x, 2)),
  'turned clockwise': ((0, 1, -1, 0), lambda x: np.rot90(x, -1)),
  'turned anticlockwise': ((0, -1, 1, 0), np.rot90),
  'turned clockwise, then mirrored': ((0, 1, 1, 0), lambda x: np.fliplr(np.rot90(x, -1))),
  'turned anticlockwise, then mirrored': ((0, -1, -1, 0), lambda x: np.fliplr(np.rot90(x))),
}


@pytest.mark.parametrize('name', MATRICES)
def test_the_display_matrix_is_applied(name, tmp_path):
  matrix, shown = MATRICES[name]
  stored = gray(20, 64, 64)
  stored[:32, :32] = (250, 30, 30)
  stored[:32, 32:] = (30, 30, 250)
  path = write_video(tmp_path / 'clip.mp4', [stored] * 3)
  data = bytearray(path.read_bytes())
  place = data.index(b'tkhd') + 4 + 40  # of the matrix in version 0
  a, b, c, d = (value << 16 for value in matrix)
  struct.pack_into('>9i', data, place, a, b, 0, c, d, 0, 0, 0, 1 << 30)
  path.write_bytes(bytes(data))
  (frame,) = video.sample(path, {'uniform': 1}, 64)
  difference = np.abs(frame.image.astype(int) - shown(stored)).mean()
  assert difference < 12


def test_side_data_that_pyav_has_no_name_for(tmp_path):
  """Frames of Motion JPEG may have EXIF data."""
  image = pytest.importorskip('PIL.Image')
  stored = gray(20, 64, 64)
  stored[:32, :32] = (250, 30, 30)
  exif = image.Exif()
  exif[0x0112] = 6
  jpeg = io.BytesIO()
  image.fromarray(stored).save(jpeg, 'JPEG', exif=exif, quality=95)
  path = tmp_path / 'clip.avi'
  with av.open(str(path), 'w') as file:
    stream = file.add_stream('mjpeg', rate=10)
    stream.width, stream.height, stream.pix_fmt = 64, 64, 'yuvj420p'
    for i in range(3):
      packet = av.Packet(jpeg.getvalue())
      packet.stream, packet.time_base = stream, Fraction(1, 10)
      packet.pts = packet.dts = i
      packet.is_keyframe = True
      file.mux(packet)
  (frame,) = video.sample(path, {'uniform': 1}, 64)
  turned = [np.abs(frame.image.astype(int) - x).mean() for x in (stored, np.rot90(stored, -1))]
  assert min(turned) < 12  # FFmpeg 7 does not turn such frames
  assert turned[1] < 12 or not frame_is_turned(path)


def frame_is_turned(path) -> bool:
  with av.open(str(path)) as file:
    return next(file.decode(video=0)).rotation != 0


@pytest.mark.parametrize(
  ('aspect', 'shape'), [('1/1', (48, 64)), ('16/9', (48, 114)), ('1/2', (48, 32))]
)
def test_pixels_that_are_not_square(aspect, shape, tmp_path):
  path = tmp_path / 'clip.mkv'
  with av.open(str(path), 'w') as file:
    stream = file.add_stream('mpeg4', rate=10)
    stream.width, stream.height, stream.pix_fmt = 64, 48, 'yuv420p'
    stream.codec_context.sample_aspect_ratio = Fraction(aspect)
    stream.sample_aspect_ratio = Fraction(aspect)
    for _ in range(3):
      file.mux(stream.encode(av.VideoFrame.from_ndarray(gray(99), 'rgb24')))
    file.mux(stream.encode())
  (_, frame), *_ = video.read(path, {'': video.Pictures({'every': 1}, size=None)})
  assert frame.image.shape[:2] == shape


@pytest.mark.parametrize('turned', [False, True])
def test_whole_frames_as_squares(turned, tmp_path):
  """Stretched, what is at the sides is there; in the central square it is not."""
  stored = gray(20, 48, 96)
  stored[:, :24], stored[:, 72:] = (250, 30, 30), (30, 30, 250)
  stored = np.rot90(stored) if turned else stored
  path = write_video(tmp_path / 'clip.mp4', [stored] * 3)
  requests = {
    'whole': video.Pictures({'uniform': 1}, 32, 40, stretch=True),
    'middle': video.Pictures({'uniform': 1}, 32),
  }
  images = {key: frame.image for key, frame in video.read(path, requests)}
  assert {image.shape for image in images.values()} == {(32, 32, 3)}
  expected = gray(20, 32, 32)
  expected[:, :8], expected[:, 24:] = (250, 30, 30), (30, 30, 250)
  expected = np.rot90(expected) if turned else expected
  assert np.abs(images['whole'].astype(int) - expected).mean() < 12
  assert np.abs(images['middle'].astype(int) - 20).mean() < 12
