"""Videos are found by id, and their pictures are those at the given times."""

import base64
import io

import numpy as np
import pytest

from tests.video_files import RATE, av, gray, levels_of, ramp, write_video
from vidcap_jax.errors import UserError
from vidcap_jax.features import video, video_stills
from vidcap_jax.features.picture_files import FrameFiles


def save(path, image):
  from PIL import Image

  path.parent.mkdir(exist_ok=True)
  Image.fromarray(image).save(path)


def test_sources_by_other_names(tmp_path):
  for name in ('clip_b', 'x'):
    (tmp_path / f'{name}.mp4').touch()
  (tmp_path / 'clip_b.jpg').touch()  # a video has precedence
  found = video_stills.find_sources(tmp_path, ['vid1', 'x', 'y'], {'vid1': 'clip_b'})
  assert found == {'vid1': tmp_path / 'clip_b.mp4', 'x': tmp_path / 'x.mp4'}


def test_folders_of_frames(tmp_path):
  for i, image in enumerate(ramp(12)):
    save(tmp_path / 'v' / f'{i}.png', image)
  source = video_stills.find_sources(tmp_path, ['v'])['v']
  assert isinstance(source, FrameFiles)
  images = video_stills.pictures_at(source, [11.0, 2.0], 16)
  assert levels_of([video.Frame(0, image) for image in images]) == [11, 2]


def test_no_such_folder(tmp_path):
  with pytest.raises(UserError, match='nowhere: no such folder'):
    video_stills.find_sources(tmp_path / 'nowhere', ['v'])
  (tmp_path / 'v.json').touch()
  with pytest.raises(UserError, match='--videos=.*a file, not a folder'):
    video_stills.find_sources(tmp_path / 'v.json', ['v'])


def test_pictures_at_any_times_in_any_order(tmp_path):
  path = write_video(tmp_path / 'v.mp4', ramp(30))
  frames = [7, 0, 29, 13, 7]
  images = video_stills.pictures_at(path, [frame / RATE for frame in frames], 32)
  assert levels_of([video.Frame(0, image) for image in images]) == frames
  assert images[0].shape == (32, 32, 3)
  assert video_stills.pictures_at(path, [99.0], 24, whole=True)[0].shape == (24, 32, 3)
  assert video_stills.pictures_at(path, []) == []


@pytest.mark.parametrize('shape', [(48, 64), (47, 63)])
def test_jpeg_uri(shape):
  prefix, data = video_stills.jpeg_uri(gray(100, *shape)).split(',')
  assert prefix == 'data:image/jpeg;base64'
  with av.open(io.BytesIO(base64.b64decode(data))) as file:
    image = next(file.decode(video=0)).to_ndarray(format='rgb24')
  assert image.shape == (shape[0] // 2 * 2, shape[1] // 2 * 2, 3)
  np.testing.assert_allclose(image, 100, atol=8)


def test_the_only_picture_is_on_screen_at_any_time(tmp_path):
  image = pytest.importorskip('PIL.Image')
  image.fromarray(gray(99)).save(tmp_path / 'photo.png')
  images = video_stills.pictures_at(tmp_path / 'photo.png', [0.0, 2.0], 24)
  assert [round(float(each.mean())) for each in images] == [99, 99]
