"""The clock of a video file: at which moment each picture appears, as exact fractions of a second.

A file gives each picture a time stamp. Many stamps are inexact or wrong: containers round them to a
multiple of their time unit, the tick; AVI numbers pictures in the order of decoding, which may
differ from that of display; transport streams begin at any stamp and may jump back. ``read_clock``
checks the stamps of a whole file before any picture is used. If they can't be right, it decodes the
file once and takes the order of the decoded pictures, which is always that of display.

The moment 0 is when the first picture appears; sound is placed on the same clock.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

# Reordering moves a picture by fewer places than this: codecs hold back at most 16 pictures, and 64
# leaves room. A stamp that is smaller than one so many packets earlier is a jump of the clock.
_MOST_REORDERED = 64


@dataclasses.dataclass(frozen=True)
class Clock:
  """When the pictures of a video appear.

  Attributes:
    start: the stamp of the first picture, seconds.
    sound_start: the stamp of the sound that is heard with the first picture, seconds.
    moments: when pictures appear, in order of display, seconds after ``start``, ascending.
    rate: pictures a second if it is constant: moments are multiples of 1 / rate; otherwise None.
    ignore_stamps: the k-th decoded picture appears at the k-th moment, whatever its own stamp is.
    aspect: width of a stored pixel over its height.
  """

  start: Fraction = Fraction(0)
  sound_start: Fraction = Fraction(0)
  moments: Sequence[Fraction] = ()
  rate: Fraction | None = None
  ignore_stamps: bool = False
  aspect: Fraction = Fraction(1)

  def moment(self, index: int, stamp: Fraction | None) -> Fraction:
    """When a decoded picture appears, seconds after ``start``.

    Args:
      index: of the picture, in the order of decoding.
      stamp: of the picture, seconds; None if it has none.
    """
    if self.ignore_stamps or stamp is None:
      if index < len(self.moments):
        return self.moments[index]
      beyond = index + 1 - len(self.moments)
      return (self.moments[-1] if self.moments else Fraction(0)) + beyond * self.mean
    return _on_grid(stamp - self.start, self.rate)

  @property
  def mean(self) -> Fraction:
    """How long a picture is on screen on average, seconds; 0 for a single one."""
    if len(self.moments) < 2:
      return Fraction(0)
    return (self.moments[-1] - self.moments[0]) / (len(self.moments) - 1)

  @property
  def length(self) -> Fraction:
    """Seconds from the first picture to the end of the last, which lasts as long as the mean."""
    return (self.moments[-1] if self.moments else Fraction(0)) + self.mean


def read_clock(open_file: Callable[[], Any], choose_stream: Callable[[Any], Any]) -> Clock:
  """The clock of a file's pictures. Reads the file once, and decodes it once if stamps are wrong.

  Damaged parts of the file are skipped.

  Args:
    open_file: opens the file: a PyAV container, closed here.
    choose_stream: container -> the stream of pictures.
  """
  with open_file() as container:
    stream = choose_stream(container)
    tick = Fraction(stream.time_base or 0)
    rates = [Fraction(r) for r in (stream.average_rate, stream.base_rate, stream.guessed_rate) if r]
    aspect = Fraction(stream.sample_aspect_ratio or 1)
    packets = _packets(container, stream)
    reorders = bool(stream.codec_context.has_b_frames)
    # Pictures and sound are numbered from 0 on, in the order of decoding.
    has_no_stamps = container.format.name == 'avi'
  if _are_right(packets, reorders):
    stamps = sorted(packet.pts for packet in packets if packet.shown and packet.pts is not None)
    clock = _clock([tick * stamp for stamp in stamps], tick, rates)
  else:
    with open_file() as container:
      decoded = list(_decoded_stamps(container, choose_stream(container)))
    clock = dataclasses.replace(_clock(_ascending(decoded, rates), tick, rates), ignore_stamps=True)
  first = packets[0].dts if packets else None
  sound_start = tick * first if has_no_stamps and first is not None else clock.start
  return dataclasses.replace(clock, sound_start=sound_start, aspect=aspect)


@dataclasses.dataclass(frozen=True)
class _Packet:
  pts: int | None
  dts: int | None
  is_keyframe: bool
  shown: bool  # False: needed to decode others, but cut off by the file's edit list


def _packets(container, stream) -> list[_Packet]:
  """The packets of a stream that hold pictures, in the order in which they are stored."""
  import av

  found = []
  try:
    for packet in container.demux(stream):
      if packet.size:
        found.append(_Packet(packet.pts, packet.dts, packet.is_keyframe, not packet.is_discard))
  except av.FFmpegError:
    pass  # the decoding pass reports the damage
  return found


def _are_right(packets: Sequence[_Packet], reorders: bool) -> bool:
  """Whether the stamps of packets are those of the pictures that they decode to."""
  stamps = [packet.pts for packet in packets if packet.pts is not None]
  if len(stamps) < len(packets) or len({*stamps}) < len(stamps):
    return False
  if not any(packet.shown for packet in packets):
    return False
  # Pictures before the first key frame, in either order, may not decode.
  if not packets[0].is_keyframe or min(stamps) < stamps[0]:
    return False
  # A codec that reorders, in a container that doesn't say how: stamps in the order of decoding.
  ascending = all(a < b for a, b in itertools.pairwise(stamps))
  if reorders and ascending and len(stamps) > 1:
    return False
  highest = list(itertools.accumulate(stamps, max))
  return all(b > a for a, b in zip(highest, stamps[_MOST_REORDERED:]))


def _decoded_stamps(container, stream) -> Iterator[Fraction | None]:
  """The stamps of pictures as they decode, seconds; None where one has none."""
  import av

  packets = container.demux(stream)
  while True:
    try:
      frames = next(packets).decode()
    except (StopIteration, av.EOFError):
      return
    except av.FFmpegError:
      continue
    for frame in frames:
      yield None if frame.pts is None else Fraction(frame.pts) * frame.time_base


def _ascending(stamps: Sequence[Fraction | None], rates: Sequence[Fraction]) -> list[Fraction]:
  """Corrects the stamps of pictures in order of display, so that they ascend.

  Args:
    stamps: of the pictures as they decode, seconds; None where one has none.
    rates: that the file states, pictures a second; the first of them fills gaps.
  """
  step = 1 / rates[0] if rates else Fraction(1, 25)
  known = [stamp for stamp in stamps if stamp is not None]
  if len(known) == len(stamps) and _are_permuted(known):
    return sorted(known)
  # A missing stamp is one step after the one before. If a stamp jumps back, it and all later ones
  # are shifted by the same offset.
  ordered: list[Fraction] = []
  offset = Fraction(0)
  for stamp in stamps:
    before = ordered[-1] if ordered else None
    if stamp is None:
      stamp = Fraction(0) if before is None else before + step
    else:
      if before is not None and stamp + offset < before:
        offset = before + step - stamp
      stamp += offset
    ordered.append(stamp)
  return ordered


def _are_permuted(stamps: Sequence[Fraction]) -> bool:
  """Whether stamps are right but in the order of decoding, which is near that of display."""
  if len({*stamps}) < len(stamps):
    return False
  ranks = {stamp: rank for rank, stamp in enumerate(sorted(stamps))}
  return all(abs(ranks[stamp] - i) < _MOST_REORDERED for i, stamp in enumerate(stamps))


def _clock(stamps: Sequence[Fraction], tick: Fraction, rates: Sequence[Fraction]) -> Clock:
  if not stamps:
    return Clock()
  start = stamps[0]
  moments = [stamp - start for stamp in stamps]
  rate = next((r for r in _possible_rates(moments, rates) if _fits(moments, r, tick)), None)
  if rate is not None:
    moments = [_on_grid(moment, rate) for moment in moments]
  return Clock(start, start, moments, rate)


def _possible_rates(moments: Sequence[Fraction], rates: Sequence[Fraction]) -> Iterator[Fraction]:
  """Rates that a video may have: those that the file states, and the mean rate of its pictures.

  A stated rate near one of television (such as 30000/1001) comes after that one.
  """
  for rate in rates:
    television = Fraction(round(rate) * 1000, 1001)
    if rate.denominator > 1 and abs(television / rate - 1) < Fraction(1, 2000):
      yield television
    yield rate
  if len(moments) > 1 and moments[-1]:
    yield (Fraction(len(moments) - 1) / moments[-1]).limit_denominator(1001)


def _fits(moments: Sequence[Fraction], rate: Fraction, tick: Fraction) -> bool:
  """Whether moments are multiples of 1 / rate, rounded to ticks, no two of them the same."""
  if not rate or 1 / rate < tick:
    return False
  places = [round(moment * rate) for moment in moments]
  if any(b <= a for a, b in itertools.pairwise(places)):
    return False
  return all(abs(p / rate - m) <= tick for p, m in zip(places, moments, strict=True))


def _on_grid(moment: Fraction, rate: Fraction | None) -> Fraction:
  return moment if rate is None else round(moment * rate) / rate
