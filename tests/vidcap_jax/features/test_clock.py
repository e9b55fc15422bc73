"""The right frames of files whose time stamps are rounded, out of order, missing or jump."""

from fractions import Fraction

import pytest

from benchmarks import frames
from vidcap_jax.features import clock, video

av = pytest.importorskip('av', reason='the extra "video" is not installed')


def clip(tmp_path, container: str, rate: int, *, codec='libx264', count=90, **changes):
  """A file of 90 numbered pictures with B-frames."""
  drawn = frames.Clip(
    container,
    codec,
    2,
    Fraction(rate),
    tuple(Fraction(i, rate) for i in range(count)),
    changes.pop('start', Fraction(0)),
    (),
    (),
  )
  return frames.write(drawn, tmp_path / f'clip.{container}')


def numbers(path, how) -> list[int]:
  return [frames.number_of(frame.image) for frame in video.sample(path, how, 64)]


CONTAINERS = ('avi', 'mp4', 'matroska', 'mpegts')


@pytest.mark.parametrize('container', CONTAINERS)
def test_every_container_gives_the_same_frames(container, tmp_path):
  path = clip(tmp_path, container, 30)
  assert numbers(path, {'uniform': 90}) == list(range(90))
  assert numbers(path, {'uniform': 20}) == [int(4.5 * i + 2.25) for i in range(20)]
  assert numbers(path, {'fps': 30}) == list(range(90))
  assert numbers(path, {'fps': 15}) == list(range(0, 90, 2))
  assert numbers(path, {'fps': 3}) == list(range(0, 90, 10))
  assert numbers(path, {'every': 7}) == list(range(0, 90, 7))


@pytest.mark.parametrize('container', CONTAINERS)
def test_a_rate_that_is_no_fraction_of_the_tick(container, tmp_path):
  path = clip(tmp_path, container, 24)
  assert numbers(path, {'fps': 24}) == list(range(90))
  assert numbers(path, {'fps': 8}) == list(range(0, 90, 3))


def test_random_clips_are_read_as_written():
  differing = [line for lines in frames.measure(range(5000, 5040)).values() for line in lines]
  assert len(differing) == 40
  assert not any(differing), '\n'.join(filter(None, differing))


def test_a_stream_that_jumps_back_goes_on(tmp_path):
  part = clip(tmp_path, 'mpegts', 25, count=40, start=Fraction(4))
  path = tmp_path / 'joined.ts'
  path.write_bytes(part.read_bytes() * 2)
  assert numbers(path, {'every': 1}) == [*range(40), *range(40)]
  assert numbers(path, {'fps': 5}) == [*range(0, 40, 5)] * 2
  assert numbers(path, {'uniform': 8}) == [5, 15, 25, 35] * 2


def seconds(*values):
  return [None if value is None else Fraction(str(value)) for value in values]


@pytest.mark.parametrize(
  ('stamps', 'ordered'),
  [
    ((0, 1, 2), (0, 1, 2)),
    ((1, 4, 3, 5, 2), (1, 2, 3, 4, 5)),  # in the order of decoding
    ((None, None, None), (0, 0.5, 1)),  # at the rate of 2 a second
    ((3, None, 4), (3, 3.5, 4)),
    ((7, 8, 8, 9), (7, 8, 8, 9)),
    ((*range(100, 200), *range(100)), [100 + i - (i > 99) * 0.5 for i in range(200)]),
  ],
)
def test_stamps_in_order_of_display(stamps, ordered):
  found = clock._ascending(seconds(*stamps), [Fraction(2)])
  assert found == seconds(*ordered)


def test_rounded_stamps_are_multiples_of_a_rate():
  tick = Fraction(1, 1000)
  rounded = [round(Fraction(i * 1001, 30000) / tick) * tick for i in range(500)]
  found = clock._clock(rounded, tick, [Fraction(2997, 100)])
  assert found.rate == Fraction(30000, 1001)
  assert found.moments == [Fraction(i * 1001, 30000) for i in range(500)]
  irregular = clock._clock(seconds(0, 0.1, 0.107, 0.5), tick, [Fraction(10)])
  assert irregular.rate is None
  assert irregular.length == Fraction(1, 2) * 4 / 3
