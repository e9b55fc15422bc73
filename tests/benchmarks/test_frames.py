"""The right answers of the benchmark of frames, by hand."""

import random
from fractions import Fraction

import numpy as np

from benchmarks import frames


def clip(*moments: float) -> frames.Clip:
  seconds = tuple(Fraction(str(moment)) for moment in moments)
  return frames.Clip('mp4', 'mpeg4', 0, None, seconds, Fraction(0), (), ())


def test_expected_frames():
  uneven = clip(0, 1, 2, 2.1, 2.2, 2.3, 2.4)  # 2.8 seconds
  assert frames.expected(uneven, {'uniform': 3}) == [0, 1, 5]  # at 0.47, 1.4, 2.33
  assert frames.expected(uneven, {'fps': 1.0}) == [0, 1, 2]
  assert frames.expected(uneven, {'every': 3}) == [0, 3, 6]
  assert frames.expected(uneven, {'every': 1, 'one_in': 3}) == [1, 4, 6]
  assert frames.expected(clip(0), {'uniform': 2}) == [0, 0]
  assert frames.expected(clip(0), {'fps': 30.0}) == [0]


def test_pictures_hold_their_number():
  for number in (0, 1, 89, 255):
    assert frames.number_of(frames.picture(number)) == number
    assert frames.number_of(np.repeat(frames.picture(number), 3, axis=1)) == number


def test_clips_are_a_function_of_their_seed():
  drawn = [frames.draw(random.Random(seed)) for seed in range(50)]
  assert drawn == [frames.draw(random.Random(seed)) for seed in range(50)]
  assert {c.container for c in drawn} == {*frames.CODECS}
  assert any(c.sound for c in drawn)
  assert any(c.start for c in drawn)
