"""Samplings: which frames of a video, or segments of its sound, a network reads.

A sampling is a small mapping that is stored with a stream's features. It has one of the keys

* ``{'uniform': N}``: the frames on screen at the middle of each of N equal parts of the video,
* ``{'every': n}``: frames 0, n, 2n, …, in order of display,
* ``{'fps': x}``: the frames on screen at 0, 1/x, 2/x, … seconds,

and optionally

* ``'one_in': n``: of every n of these frames the middle one; if the last group ends before its
  middle, its last one,
* ``'window': w, 'stride': s``: windows of w of these frames, one starting at each s-th frame.
  Windows end within the video; a video shorter than w gives one window, its last frame repeated.

The sampling of sound is ``{'hop': x}``: segments of the network's length, one starting every x
seconds, that end within the sound.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from vidcap_jax.features.clock import Clock

BASES = ('uniform', 'every', 'fps')
_FRACTIONS = ('fps', 'hop')
KEYS = {
  # What a network reads -> the keys that its samplings must have besides the base.
  'frames': (),
  'windows': ('window', 'stride'),
  'audio': ('hop',),
}

Number = int | float
# Sampled frames: (seconds after the video's first frame, PyAV's frame).
Moments = list[tuple[float, Any]]


def check(sampling: Mapping[str, Any], reads: str = 'frames') -> dict[str, Number]:
  """Checks a sampling and returns it in its canonical form.

  Args:
    sampling: as described in the module.
    reads: what the network reads, a key of ``KEYS``.

  Raises:
    ValueError: malformed, or of a kind that such a network can't read.
  """
  allowed = KEYS[reads] if reads == 'audio' else (*BASES, 'one_in', *KEYS[reads])
  shown = f'sampling {sampling!r}'
  if not isinstance(sampling, Mapping) or set(sampling) - set(allowed):
    raise ValueError(f'{shown}: {", ".join(allowed)} expected, with a number')
  if reads != 'audio' and sum(key in sampling for key in BASES) != 1:
    raise ValueError(f'{shown}: one of {", ".join(BASES)} expected, with a number')
  if missing := [key for key in KEYS[reads] if key not in sampling]:
    raise ValueError(f'{shown}: {missing[0]} is missing')
  checked = {key: _number(key, sampling[key]) for key in allowed if key in sampling}
  if checked.get('one_in') == 1:
    del checked['one_in']
  return checked


def _number(key: str, amount: Any) -> Number:
  if isinstance(amount, bool) or not isinstance(amount, Number) or not 0 < amount < np.inf:
    raise ValueError(f'sampling {key}={amount!r}: a number above 0 expected')
  if key in _FRACTIONS:
    return float(amount)
  if amount != int(amount):
    raise ValueError(f'sampling {key}={amount!r}: a whole number expected')
  return int(amount)


def parse(text: str) -> dict[str, Number]:
  """Parses ``every=5``, ``fps=2+window=16/8`` or ``hop=0.96`` into a mapping, without ``check``.

  Raises:
    ValueError: not of that form.
  """
  sampling: dict[str, Number] = {}
  for part in text.split('+'):
    key, equals, value = part.partition('=')
    names = ('window', 'stride') if key == 'window' else (key,)
    values = value.split('/') if key == 'window' else [value]
    values = values * 2 if key == 'window' and len(values) == 1 else values  # stride = window
    if not equals or len(values) != len(names) or sampling.keys() & {*names}:
      raise ValueError(f'sampling {text!r}: {part!r} is not of the form KEY=NUMBER, once each')
    for name, number in zip(names, values, strict=True):
      try:
        sampling[name] = float(number) if name in _FRACTIONS else int(number)
      except ValueError:
        raise ValueError(f'sampling {text!r}: {number!r} is not a valid number') from None
  return sampling


def complete(given: Mapping[str, Any], default: Mapping[str, Number]) -> dict[str, Any]:
  """The given sampling, with missing keys taken from the default."""
  has_base = any(key in given for key in BASES)
  return {**{k: v for k, v in default.items() if not (has_base and k in BASES)}, **given}


def text_of(sampling: Mapping[str, Number]) -> str:
  """The inverse of ``parse``."""
  parts = [f'{k}={v:g}' for k, v in sampling.items() if k not in ('window', 'stride')]
  if 'window' in sampling:
    parts.append(f'window={sampling["window"]}/{sampling["stride"]}')
  return '+'.join(parts)


class ShownFrame(NamedTuple):
  """A decoded frame and when it is on screen, in seconds after the video's first frame.

  Attributes:
    number: index of the frame, from 0.
    begin: when it appears.
    end: when the next frame appears; None for the last frame.
    mean: average duration of a frame; only set for the last frame.
    frame: PyAV's frame.
  """

  number: int
  begin: Fraction
  end: Fraction | None
  mean: Fraction
  frame: Any


class FrameTimer:
  """Turns decoded frames into ``ShownFrame``: each one once the next frame is decoded."""

  def __init__(self):
    self._index, self._first = -1, Fraction(0)
    self._previous: tuple[Fraction, Any] | None = None

  def next(self, moment: Fraction, frame: Any) -> ShownFrame | None:
    """Adds a frame; returns the one before it, None for the first."""
    shown = None
    if self._previous is None:
      self._first = moment
    else:
      before, previous = self._previous
      moment = max(moment, before)
      shown = ShownFrame(self._index, before, moment, Fraction(0), previous)
    self._previous = (moment, frame)
    self._index += 1
    return shown

  def last(self) -> ShownFrame | None:
    """The last frame; None if there were no frames."""
    if self._previous is None:
      return None
    begin, frame = self._previous
    mean = (begin - self._first) / max(self._index, 1)
    return ShownFrame(self._index, begin, None, mean, frame)


def make_chooser(sampling: Mapping[str, Number], clock: Clock) -> Callable[[ShownFrame], Moments]:
  """Returns a function to call with each frame in turn; it returns the moments to sample.

  Args:
    sampling: of frames; windows are made from the chosen frames.
    clock: of the video; its length is only used by ``uniform``.
  """
  if 'every' in sampling:
    choose = _every_nth(int(sampling['every']))
  elif 'uniform' in sampling:
    # Half a frame of slack at the end: the last frames of a damaged file may not decode.
    choose = _frames_at(_middles(clock.length, int(sampling['uniform'])), Fraction(1, 2))
  else:
    # The number as it was written: 0.1 is a tenth.
    choose = _frames_at(_multiples(1 / Fraction(str(sampling['fps']))))
  return _middles_of_groups(int(sampling['one_in']), choose) if 'one_in' in sampling else choose


def sampled_times(sampling: Mapping[str, Number], clock: Clock) -> list[float]:
  """When the frames that a sampling chooses are on screen; of a window its middle frame.

  Args:
    sampling: of frames or windows.
    clock: of the video.

  Returns:
    seconds after the video's first frame, ascending.
  """
  choose, timer = make_chooser(sampling, clock), FrameTimer()
  shown = [*(timer.next(moment, None) for moment in clock.moments), timer.last()]
  times = [time for frame in shown if frame is not None for time, _ in choose(frame)]
  if 'window' not in sampling or not times:
    return times
  window, stride = int(sampling['window']), int(sampling['stride'])
  begins = range(0, max(1, len(times) - window + 1), stride)
  return [times[min(begin + (window - 1) // 2, len(times) - 1)] for begin in begins]


def frames_at(times: Sequence[float]) -> Callable[[ShownFrame], Moments]:
  """Like ``make_chooser``, for the frames on screen at given times (seconds, ascending).

  Times after the end get the last frame.
  """
  # Times are rounded fractions: a frame that appears at 1/3 is on screen at 0.333.
  targets = (Fraction(time) + Fraction(1, 10**6) for time in times)
  return _frames_at(targets, slack=None)


def _every_nth(step: int) -> Callable[[ShownFrame], Moments]:
  return lambda shown: [(float(shown.begin), shown.frame)] if shown.number % step == 0 else []


def _middles(length: Fraction, parts: int) -> Iterator[Fraction]:
  """The middles of equal parts of a video."""
  return (length * (2 * i + 1) / (2 * parts) for i in range(parts))


def _multiples(step: Fraction) -> Iterator[Fraction]:
  return (i * step for i in itertools.count())


def _frames_at(
  targets: Iterator[Fraction], slack: Fraction | None = Fraction(0)
) -> Callable[[ShownFrame], Moments]:
  """Chooses the frames on screen at ascending target times.

  The last frame is taken to last as long as the others on average, times ``1 + slack``; without a
  slack, for ever.
  """
  target = next(targets, None)

  def choose(shown: ShownFrame) -> Moments:
    nonlocal target
    is_last = shown.end is None
    takes_rest = is_last and slack is None
    end = shown.begin + (1 + (slack or 0)) * shown.mean if shown.end is None else shown.end
    chosen = []
    while target is not None and (target < end or takes_rest or (is_last and target == 0)):
      chosen.append((float(target), shown.frame))
      target = next(targets, None)
    return chosen

  return choose


def _middles_of_groups(
  group: int, choose: Callable[[ShownFrame], Moments]
) -> Callable[[ShownFrame], Moments]:
  """Chooses the middle one of every ``group`` moments.

  At the end of the video, a group that has not reached its middle gives its last moment.
  """
  count = 0
  pending: Moments = []  # the last moment of a group before its middle

  def choose_middles(shown: ShownFrame) -> Moments:
    nonlocal count, pending
    chosen: Moments = []
    for moment in choose(shown):
      place, middle = count % group, (group - 1) // 2
      count += 1
      if place == middle:
        chosen.append(moment)
      pending = [moment] if place < middle else []
    return chosen + pending if shown.end is None else chosen

  return choose_middles
