"""Samplings: their forms, and which frames they choose."""

from fractions import Fraction

import pytest

from vidcap_jax.features import sampling
from vidcap_jax.features.clock import Clock


@pytest.mark.parametrize(
  ('how', 'reads'),
  [
    ({}, 'frames'),
    ({'uniform': 0}, 'frames'),
    ({'uniform': 2.5}, 'frames'),
    ({'every': -1}, 'frames'),
    ({'every': True}, 'frames'),
    ({'fps': float('nan')}, 'frames'),
    ({'fps': 'x'}, 'frames'),
    ({'never': 1}, 'frames'),
    ({'uniform': 2, 'every': 2}, 'frames'),
    ({'one_in': 3}, 'frames'),
    ({'every': 1, 'window': 16, 'stride': 8}, 'frames'),
    ({'every': 1, 'window': 16}, 'windows'),
    ({'every': 1, 'window': 16, 'stride': 0.5}, 'windows'),
    ({'every': 5}, 'audio'),
    ({'hop': 0}, 'audio'),
    (None, 'frames'),
  ],
)
def test_malformed_samplings(how, reads):
  with pytest.raises(ValueError, match='sampling'):
    sampling.check(how, reads)


def test_canonical_form_of_samplings():
  assert sampling.check({'uniform': 8.0}) == {'uniform': 8}
  assert sampling.check({'fps': 2}) == {'fps': 2.0}
  assert isinstance(sampling.check({'every': 3.0})['every'], int)
  assert sampling.check({'one_in': 1, 'every': 5}) == {'every': 5}
  assert list(sampling.check({'one_in': 3, 'every': 5})) == ['every', 'one_in']
  assert sampling.check({'hop': 1}, 'audio') == {'hop': 1.0}


@pytest.mark.parametrize(
  ('text', 'how'),
  [
    ('uniform=20', {'uniform': 20}),
    ('fps=2+window=16/8', {'fps': 2.0, 'window': 16, 'stride': 8}),
    ('window=16', {'window': 16, 'stride': 16}),
    ('every=5+one_in=3', {'every': 5, 'one_in': 3}),
    ('hop=0.96', {'hop': 0.96}),
  ],
)
def test_samplings_as_text(text, how):
  assert sampling.parse(text) == how
  assert sampling.parse(sampling.text_of(how)) == how


@pytest.mark.parametrize(
  'text', ['', 'uniform', 'every=5+every=6', 'window=16/8/4', 'every=x', 'every=2.5', '+']
)
def test_malformed_text(text):
  with pytest.raises(ValueError, match='sampling'):
    sampling.parse(text)


def test_missing_keys_come_from_the_default():
  default = {'every': 1, 'window': 16, 'stride': 8}
  assert sampling.complete({'fps': 2}, default) == {'fps': 2, 'window': 16, 'stride': 8}
  assert sampling.complete({'window': 8, 'stride': 5}, default)['every'] == 1
  assert sampling.complete({}, default) == default


def chosen(how, times) -> list[tuple[float, int]]:
  """(moment, number of the frame on screen) for frames at these times."""
  moments = [Fraction(str(time)) - Fraction(str(times[0])) for time in times]
  choose = sampling.make_chooser(sampling.check(how), Clock(moments=moments))
  timer = sampling.FrameTimer()
  found = []
  for shown in [*(timer.next(moment, i) for i, moment in enumerate(moments)), timer.last()]:
    found += choose(shown) if shown else []
  return found


def numbers(how, times) -> list[int]:
  return [number for _, number in chosen(how, times)]


def test_every_goes_by_number():
  assert chosen({'every': 3}, [7.0, 7.5, 9.0, 9.1]) == [(0, 0), (pytest.approx(2.1), 3)]
  assert chosen({'every': 32}, [5.0]) == [(0, 0)]
  assert chosen({'every': 32}, []) == []


def test_uniform_and_fps_go_by_time():
  uneven = [0.0, 1.0, 2.0, 2.1, 2.2, 2.3, 2.4]
  assert numbers({'uniform': 3}, uneven) == [0, 1, 5]  # 2.8 seconds in all: at 0.47, 1.4, 2.33
  assert numbers({'fps': 1}, uneven) == [0, 1, 2]
  assert numbers({'uniform': 3}, [4.0]) == [0, 0, 0]
  assert numbers({'fps': 2}, [4.0]) == [0]


@pytest.mark.parametrize(
  ('frames', 'kept'), [(1, [0]), (2, [1]), (3, [1]), (4, [1, 3]), (6, [1, 4]), (8, [1, 4, 7])]
)
def test_one_in_three_is_the_middle_one(frames, kept):
  assert numbers({'every': 1, 'one_in': 3}, [0.1 * i for i in range(frames)]) == kept
  assert numbers({'uniform': frames, 'one_in': 3}, [0.1 * i for i in range(frames)]) == kept
