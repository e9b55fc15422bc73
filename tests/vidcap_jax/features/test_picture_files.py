"""Pictures in files are upright, in order, and frames of a video on the same clock as a video's."""

from fractions import Fraction

import numpy as np
import pytest

from tests.video_files import gray, levels_of, ramp, write_video
from vidcap_jax.errors import VideoError
from vidcap_jax.features import picture_files, video
from vidcap_jax.features.picture_files import FrameFiles

Image = pytest.importorskip('PIL.Image', reason='the extra "video" is not installed')

# EXIF orientation -> how the stored picture is turned to be shown.
ORIENTATIONS = {
  1: lambda x: x,
  2: np.fliplr,
  3: lambda x: np.rot90(x, 2),
  4: np.flipud,
  5: lambda x: x.swapaxes(0, 1),
  6: lambda x: np.rot90(x, -1),
  7: lambda x: np.rot90(x, 2).swapaxes(0, 1),
  8: np.rot90,
}


def quarters() -> np.ndarray:
  image = gray(20, 40, 60)
  image[:20, :30] = (250, 30, 30)
  image[:20, 30:] = (30, 30, 250)
  return image


@pytest.mark.parametrize('suffix', ['jpg', 'png', 'webp'])
@pytest.mark.parametrize('orientation', ORIENTATIONS)
def test_exif_orientation(tmp_path, suffix, orientation):
  exif = Image.Exif()
  exif[0x0112] = orientation
  path = tmp_path / f'a.{suffix}'
  Image.fromarray(quarters()).save(path, exif=exif, quality=95)
  expected = ORIENTATIONS[orientation](quarters())
  found = picture_files.read_picture(path)
  assert found.shape == expected.shape
  assert np.abs(found.astype(int) - expected).mean() < 6


def test_other_kinds_of_pixels(tmp_path):
  gray_16 = np.full((4, 4), 128 * 257, np.uint16)
  pictures = {
    'gray': Image.fromarray(np.full((4, 4), 128, np.uint8)),
    'gray16': Image.fromarray(gray_16),
    'palette': Image.fromarray(gray(128, 4, 4)).quantize(4),
    'alpha': Image.fromarray(np.full((4, 4, 4), 128, np.uint8)),
    'cmyk': Image.fromarray(gray(128, 4, 4)).convert('CMYK'),
  }
  for name, picture in pictures.items():
    path = tmp_path / f'{name}.{"jpg" if name == "cmyk" else "png"}'
    picture.save(path)
    found = picture_files.read_picture(path)
    assert found.shape == (4, 4, 3), name
    assert found.dtype == np.uint8
    assert np.abs(found.astype(int) - 128).max() < 4, name


def test_natural_order():
  names = ['frame10', 'frame2', 'Frame3', 'frame1', 'frame02', 'b']
  assert picture_files.natural_order(names) == [
    *('Frame3', 'b', 'frame1', 'frame02', 'frame2', 'frame10')
  ]


def frames(folder, images, rate=Fraction(10)) -> FrameFiles:
  folder.mkdir()
  files = []
  for i, image in enumerate(images):
    files.append(folder / f'{i}.png')
    Image.fromarray(image).save(files[-1])
  return FrameFiles(str(folder), tuple(files), rate)


@pytest.mark.parametrize(
  'how',
  [
    *({'uniform': 4}, {'uniform': 60}, {'every': 15}, {'fps': 3.0}, {'fps': 25.0}),
    {'every': 5, 'one_in': 3},
  ],
)
def test_frames_are_chosen_as_those_of_a_video_file(tmp_path, how):
  whole = write_video(tmp_path / 'ramp.mp4', ramp())
  parts = frames(tmp_path / 'ramp', ramp())
  expected, found = (list(video.sample(source, how, 32)) for source in (whole, parts))
  assert levels_of(found) == levels_of(expected)
  assert [f.time for f in found] == [f.time for f in expected]


def test_a_picture_is_a_video_of_one_frame(tmp_path):
  path = tmp_path / 'a.PNG'
  Image.fromarray(gray(60)).save(path)
  for how, count in (({'every': 7}, 1), ({'fps': 2}, 1), ({'uniform': 3}, 3)):
    assert levels_of(video.sample(path, how, 32)) == [10] * count
  notes = []
  assert list(video.read(path, {'': video.Sound(16_000)}, notes)) == []
  assert notes == []


def test_only_chosen_pictures_are_opened(tmp_path, monkeypatch):
  parts = frames(tmp_path / 'ramp', ramp())
  opened = []
  read = picture_files.read_picture
  monkeypatch.setattr(picture_files, 'read_picture', lambda p: opened.append(p.stem) or read(p))
  list(video.sample(parts, {'uniform': 4}, 32))
  assert opened == ['5', '15', '25', '35']


def test_damaged_pictures_are_named_and_replaced(tmp_path):
  parts = frames(tmp_path / 'ramp', ramp(6))
  parts.files[0].write_bytes(b'')
  whole = parts.files[3].read_bytes()
  parts.files[3].write_bytes(whole[: len(whole) // 2])
  parts.files[4].write_text('no picture')
  notes = []
  assert levels_of(video.sample(parts, {'every': 1}, 32, notes)) == [1, 1, 2, 2, 2, 5]
  (note,) = notes
  assert '3 pictures' in note
  assert all(f'{name}.png' in note for name in (0, 3, 4))
  assert '1.png' not in note


def test_nothing_but_damage(tmp_path):
  parts = frames(tmp_path / 'ramp', ramp(3))
  for file in parts.files:
    file.write_text('no picture')
  with pytest.raises(VideoError, match=r'ramp: .* 3 pictures'):
    list(video.sample(parts, {'every': 1}, 32))
  with pytest.raises(VideoError, match=r'0\.png: not a picture'):
    list(video.sample(parts.files[0], {'every': 1}, 32))
  with pytest.raises(VideoError, match=r'gone\.jpg: no such file'):
    list(video.sample(tmp_path / 'gone.jpg', {'every': 1}, 32))


def test_whole_frames_of_several_sizes(tmp_path):
  parts = frames(tmp_path / 'sizes', [gray(9, 32, 48), gray(9, 48, 32)])
  assert [f.image.shape for f in video.sample(parts, {'every': 1}, 16)] == [(16, 16, 3)] * 2
  with pytest.raises(VideoError, match='48 x 32 and of 32 x 48'):
    list(video.read(parts, {'': video.Pictures({'every': 1}, size=None)}))
