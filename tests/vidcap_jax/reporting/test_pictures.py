import numpy as np
import pytest

from tests import video_files
from vidcap_jax.data.records import Video
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
  assert pictures.write_strip(folder, 7, clip, []) == 4
  assert size_of(folder / pictures.strip_name(7)) == (4 * 128, 96)
  still = folder / 'still.jpg'
  still.write_bytes(video_stills.jpeg(video_files.gray(90)))
  assert pictures.write_strip(folder, 8, still, []) == 1
  assert size_of(folder / pictures.strip_name(8)) == (128, 96)


def test_a_strip_of_a_folder_of_frames(folder):
  (folder / 'frames' / 'v1').mkdir(parents=True)
  for i in range(9):
    (folder / 'frames' / 'v1' / f'{i:03}.jpg').write_bytes(video_stills.jpeg(video_files.gray(i)))
  [source] = video_stills.find_sources(folder / 'frames', ['v1']).values()
  assert pictures.write_strip(folder, 3, source, []) == 4
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
  made = pictures.FramePictures(restored, folder, notes.append)
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
