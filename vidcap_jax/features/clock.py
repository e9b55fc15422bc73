"""The clock of a video file: at which moment each picture appears, as exact fractions of a second.

Files say when a picture appears by a time stamp, and not all of them say it well: containers round
stamps to their tick, AVI counts pictures in the order in which they are decoded and not in the one
in which they are shown, transport streams begin anywhere and may jump back. ``read_clock`` looks at
the stamps of a whole file before any picture is used. Where they can't be right as they stand, it
decodes the file once and takes the order of the decoded pictures, which is always that of display.

The moment 0 is when the first picture appears; sound is placed on the same clock.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

# Codecs hold back at most 16 pictures, so a stamp that is below one of so many packets before it
# is a jump of the clock and not a picture shown in another order.
_MOST_REORDERED = 64


@dataclasses.dataclass(frozen=True)
class Clock:
  """When the pictures of a video appear.

  Attributes:
    zero: the stamp of the first picture, seconds.
    sound_zero: the stamp of the sound that goes with it, seconds.
    moments: of all pictures in order of display, seconds after ``zero``, ascending.
    rate: pictures a second, where it is constant; stamps are then taken for rounded multiples.
    by_order: the k-th picture that decodes has the k-th moment, whatever its own stamp.
    aspect: width of a stored pixel over its height.
  """

  zero: Fraction = Fraction(0)
  sound_zero: Fraction = Fraction(0)
  moments: Sequence[Fraction] = ()
  rate: Fraction | None = None
  by_order: bool = False
  aspect: Fraction = Fraction(1)

  def moment(self, index: int, stamp: Fraction | None) -> Fraction:
    """When a decoded picture appears, seconds after ``zero``.

    Args:
      index: how many were decoded before it.
      stamp: its own, seconds.
    """
    if self.by_order or stamp is None:
      if index < len(self.moments):
        return self.moments[index]
      beyond = index + 1 - len(self.moments)
      return (self.moments[-1] if self.moments else Fraction(0)) + beyond * self.mean
    return _on_grid(stamp - self.zero, self.rate)

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
  """The clock of a file's pictures; the file is read once without decoding, or decoded once.

  Args:
    open_file: opens the file: a PyAV container, closed here.
    choose_stream: container -> the stream of pictures.

  Damage ends neither: what can be read counts.
  """
  with open_file() as container:
    stream = choose_stream(container)
    tick = Fraction(stream.time_base or 0)
    rates = [Fraction(r) for r in (stream.average_rate, stream.base_rate, stream.guessed_rate) if r]
    aspect = Fraction(stream.sample_aspect_ratio or 1)
    packets = _packets(container, stream)
    reorders = bool(stream.codec_context.has_b_frames)
    # AVI has no stamps: frames and sound are counted from 0 on, in the order of decoding.
    counts = container.format.name == 'avi'
  if _is_plain(packets, reorders):
    stamps = sorted(packet.pts for packet in packets if packet.shown and packet.pts is not None)
    clock = _clock([tick * stamp for stamp in stamps], tick, rates)
  else:
    with open_file() as container:
      decoded = list(_decoded_stamps(container, choose_stream(container)))
    clock = dataclasses.replace(_clock(_in_order(decoded, rates), tick, rates), by_order=True)
  first = packets[0].dts if packets else None
  sound_zero = tick * first if counts and first is not None else clock.zero
  return dataclasses.replace(clock, sound_zero=sound_zero, aspect=aspect)


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


def _is_plain(packets: Sequence[_Packet], reorders: bool) -> bool:
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


def _in_order(stamps: Sequence[Fraction | None], rates: Sequence[Fraction]) -> list[Fraction]:
  """Ascending stamps for pictures in order of display, from theirs, which may be no such thing."""
  step = 1 / rates[0] if rates else Fraction(1, 25)
  known = [stamp for stamp in stamps if stamp is not None]
  if len(known) == len(stamps) and _are_permuted(known):
    return sorted(known)
  # A stamp that is missing follows the one before; one that jumps back moves all that come after.
  ordered: list[Fraction] = []
  moved = Fraction(0)
  for stamp in stamps:
    before = ordered[-1] if ordered else None
    if stamp is None:
      stamp = Fraction(0) if before is None else before + step
    else:
      if before is not None and stamp + moved < before:
        moved = before + step - stamp
      stamp += moved
    ordered.append(stamp)
  return ordered


def _are_permuted(stamps: Sequence[Fraction]) -> bool:
  """Whether they are right but in the order of decoding, which is near that of display."""
  if len({*stamps}) < len(stamps):
    return False
  ranks = {stamp: rank for rank, stamp in enumerate(sorted(stamps))}
  return all(abs(ranks[stamp] - i) < _MOST_REORDERED for i, stamp in enumerate(stamps))


def _clock(stamps: Sequence[Fraction], tick: Fraction, rates: Sequence[Fraction]) -> Clock:
  if not stamps:
    return Clock()
  zero = stamps[0]
  moments = [stamp - zero for stamp in stamps]
  rate = next((r for r in _candidates(moments, rates) if _fits(moments, r, tick)), None)
  if rate is not None:
    moments = [_on_grid(moment, rate) for moment in moments]
  return Clock(zero, zero, moments, rate)


def _candidates(moments: Sequence[Fraction], rates: Sequence[Fraction]) -> Iterator[Fraction]:
  """Rates that a video may have: what the file says, with those of television near it, or means."""
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
