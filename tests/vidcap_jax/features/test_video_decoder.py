"""Files without frames, cut short or damaged."""

import wave

import numpy as np
import pytest

from tests.video_files import gray, write_video
from vidcap_jax.errors import VideoError
from vidcap_jax.features import video


def test_not_a_video(tmp_path):
  empty = tmp_path / 'empty.mp4'
  empty.touch()
  text = tmp_path / 'text.mp4'
  text.write_text('no video ' * 100)
  sound = tmp_path / 'sound.wav'
  with wave.open(str(sound), 'wb') as file:
    file.setparams((1, 2, 8000, 0, 'NONE', ''))
    file.writeframes(bytes(16000))
  cases = {
    empty: 'empty',
    text: 'not a video',
    sound: 'no video stream',
    tmp_path / 'none.mp4': 'no such file',
    tmp_path: 'no such file',
  }
  for path, reason in cases.items():
    with pytest.raises(VideoError, match=reason) as caught:
      list(video.sample(path, {'uniform': 2}))
    assert str(path) in str(caught.value)


def test_an_mp4_cut_anywhere_is_a_bad_video(tmp_path):
  """Its index is at its end: cut inside the index, it may name pictures of no codec."""
  data = write_video(tmp_path / 'whole.mp4', [gray(9 * i) for i in range(6)]).read_bytes()
  cut, found = tmp_path / 'cut.mp4', set()
  for percent in range(2, 90, 4):
    cut.write_bytes(data[: len(data) * percent // 100])
    with pytest.raises(VideoError, match=str(cut)) as caught:
      list(video.sample(cut, {'uniform': 2}))
    found.add('no decoder' in str(caught.value))
  assert found == {False, True}


def noisy_video(path, container):
  generator = np.random.default_rng(0)
  images = [generator.integers(0, 255, (48, 64, 3), dtype=np.uint8) for _ in range(40)]
  options = {'movflags': 'faststart'} if container == 'mp4' else {}
  return write_video(path, images, container=container, options=options)


@pytest.mark.parametrize('container', ['mp4', 'matroska', 'avi'])
def test_a_file_cut_short_gives_what_decodes_and_a_note(tmp_path, container):
  path = noisy_video(tmp_path / 'whole', container)
  notes = []
  assert len(list(video.sample(path, {'every': 1}, 32, notes))) == 40
  assert notes == []
  cut = tmp_path / 'cut'
  data = path.read_bytes()
  cut.write_bytes(data[: len(data) // 2])
  for how in ({'every': 1}, {'uniform': 8}, {'fps': 5}):
    notes = []
    frames = list(video.sample(cut, how, 32, notes))
    assert 5 <= len(frames) < 30
    assert notes, how
    assert str(cut) in notes[0]


def test_damage_in_the_middle_is_noted_and_skipped(tmp_path):
  path = noisy_video(tmp_path / 'whole.mp4', 'mp4')
  data = bytearray(path.read_bytes())
  third = len(data) // 3
  data[third : third + third // 2] = bytes(third // 2)
  broken = tmp_path / 'broken.mp4'
  broken.write_bytes(bytes(data))
  notes = []
  frames = list(video.sample(broken, {'uniform': 8}, 32, notes))
  assert len(frames) == 8
  assert len(notes) == 1
  assert 'damaged' in notes[0]
