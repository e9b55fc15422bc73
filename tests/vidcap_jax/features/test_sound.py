"""Sound is placed on the clock of the pictures."""

from fractions import Fraction

import numpy as np
import pytest

from benchmarks import frames
from vidcap_jax.features import video

av = pytest.importorskip('av', reason='the extra "video" is not installed')


def read_sound(tmp_path, container, *, start=0, sound=((0, 4),), click=2.5) -> np.ndarray:
  """The sound (samples,) at 16 kHz of a clip of 120 pictures, 30 a second."""
  drawn = frames.Clip(
    container,
    'libx264',
    0,
    Fraction(30),
    tuple(Fraction(i, 30) for i in range(120)),
    Fraction(start),
    tuple((Fraction(begin), Fraction(end)) for begin, end in sound),
    (Fraction(click),),
  )
  path = frames.write(drawn, tmp_path / f'clip.{container}')
  return np.concatenate([piece for _, piece in video.read(path, {'': video.Sound(16_000)})])


def click(samples: np.ndarray) -> float:
  """When the click is heard, seconds."""
  return float(np.argmax(np.abs(samples)) / 16_000)


@pytest.mark.parametrize('container', ['mp4', 'matroska', 'mpegts'])
@pytest.mark.parametrize(
  ('start', 'begin', 'heard'),
  [(0, 0, 2.5), (0, 2, 2.5), (1, 0, 1.5), (1, 2, 1.5)],
  ids=['together', 'sound later', 'sound earlier', 'both later'],
)
def test_sound_that_does_not_begin_with_the_pictures(container, start, begin, heard, tmp_path):
  samples = read_sound(tmp_path, container, start=start, sound=((begin, 5),))
  assert click(samples) == pytest.approx(heard, abs=0.004)
  silent = round(16_000 * max(0, begin - start))
  assert not np.abs(samples[: max(0, silent - 400)]).any()
  assert len(samples) == pytest.approx(16_000 * (5 - start), abs=1000)


def test_a_gap_is_silent(tmp_path):
  samples = read_sound(tmp_path, 'matroska', sound=((0, 1), (1.5, 4)), click=2)
  assert click(samples) == pytest.approx(2, abs=0.002)
  assert len(samples) == pytest.approx(64_000, abs=500)


def test_avi_counts_sound_from_the_first_picture(tmp_path):
  assert click(read_sound(tmp_path, 'avi')) == pytest.approx(2.5, abs=0.002)
