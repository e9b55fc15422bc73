"""Samplings: which frames of a video, or stretches of its sound, a network reads.

A sampling is a small mapping that is kept with a stream's features. It begins with one of

* ``{'uniform': N}``: what is on screen at the middle of each of N equal parts of the video,
* ``{'every': n}``: frames 0, n, 2n, …, as decoded,
* ``{'fps': x}``: what is on screen at 0, 1/x, 2/x, … seconds,

and may go on with

* ``'one_in': n``: of every n of these frames the middle one, of a shorter rest its last at most,
* ``'window': w, 'stride': s``: windows of w of these frames, beginning at each s-th. Windows lie
  wholly in the video; one that is too short for any gives one, its last frame repeated.

For sound it is ``{'hop': x}``: a stretch, as long as the network wants, each x seconds, wholly in
the sound.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

BASES = ('uniform', 'every', 'fps')
_FRACTIONS = ('fps', 'hop')
KEYS = {
  # What a network reads -> the keys beside the base, all of which its samplings have.
  'frames': (),
  'windows': ('window', 'stride'),
  'audio': ('hop',),
}

Number = int | float
# Chosen moments: (seconds after the video's first frame, PyAV's frame).
Moments = list[tuple[float, Any]]


def check(sampling: Mapping[str, Any], reads: str = 'frames') -> dict[str, Number]:
  """A sampling in its canonical form.

  Args:
    sampling: as the module says.
    reads: what it is for, a key of ``KEYS``.

  Raises:
    ValueError: malformed, or not one for what is read.
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
  """``every=5``, ``fps=2+window=16/8``, ``hop=0.96`` as a mapping, not yet checked.

  Raises:
    ValueError: not of that form.
  """
  found: dict[str, Number] = {}
  for part in text.split('+'):
    key, equals, value = part.partition('=')
    names = ('window', 'stride') if key == 'window' else (key,)
    values = value.split('/') if key == 'window' else [value]
    values = values * 2 if key == 'window' and len(values) == 1 else values  # windows side by side
    if not equals or len(values) != len(names) or found.keys() & {*names}:
      raise ValueError(f'sampling {text!r}: {part!r} is not of the form KEY=NUMBER, once each')
    for name, number in zip(names, values, strict=True):
      try:
        found[name] = float(number) if name in _FRACTIONS else int(number)
      except ValueError:
        raise ValueError(f'sampling {text!r}: {number!r} is not a number that fits') from None
  return found


def complete(given: Mapping[str, Any], default: Mapping[str, Number]) -> dict[str, Any]:
  """What is given, and what it does not say by the default."""
  based = any(key in given for key in BASES)
  return {**{k: v for k, v in default.items() if not (based and k in BASES)}, **given}


def text_of(sampling: Mapping[str, Number]) -> str:
  """The inverse of ``parse``."""
  parts = [f'{k}={v:g}' for k, v in sampling.items() if k not in ('window', 'stride')]
  if 'window' in sampling:
    parts.append(f'window={sampling["window"]}/{sampling["stride"]}')
  return '+'.join(parts)


class Shown(NamedTuple):
  """A decoded frame and how long it is on screen.

  Attributes:
    number: how many frames came before.
    start: time stamp of the video's first frame, seconds.
    begin: its own time stamp.
    end: that of the next frame; None for the last one.
    mean: how long frames are shown on average; known with the last one.
    frame: PyAV's.
  """

  number: int
  start: float
  begin: float
  end: float | None
  mean: float
  frame: Any


class Watch:
  """Says of each frame how long it is shown, once the next one is there."""

  def __init__(self):
    self._index, self._start = -1, 0.0
    self._before: tuple[float, Any] | None = None

  def next(self, seconds: float, frame: Any) -> Shown | None:
    """The frame before the one given, None for the first."""
    done = None
    if self._before is None:
      self._start = seconds
    else:
      done = Shown(self._index, self._start, self._before[0], seconds, 0.0, self._before[1])
    self._before = (seconds, frame)
    self._index += 1
    return done

  def last(self) -> Shown | None:
    """The last frame, None if there was none."""
    if self._before is None:
      return None
    begin, frame = self._before
    mean = (begin - self._start) / max(self._index, 1)
    return Shown(self._index, self._start, begin, None, mean, frame)


def chooser(sampling: Mapping[str, Number], times: list[float]) -> Callable[[Shown], Moments]:
  """A function that is shown each frame in turn and answers with the moments to sample.

  Args:
    sampling: for frames; windows are made of what is chosen.
    times: time stamps of all frames, ascending; only ``uniform`` needs them.
  """
  if 'every' in sampling:
    choose = _every(int(sampling['every']))
  elif 'uniform' in sampling:
    # All of these are within the video, but times are rounded to the container's clock.
    choose = _at(iter(_middles(times, int(sampling['uniform']))), 0.5)
  else:
    choose = _at(_multiples(1 / sampling['fps']), -0.05)
  return _one_in(int(sampling['one_in']), choose) if 'one_in' in sampling else choose


def _every(step: int) -> Callable[[Shown], Moments]:
  return lambda s: [(s.begin - s.start, s.frame)] if s.number % step == 0 else []


def _middles(times: list[float], parts: int) -> list[float]:
  """The middles of equal parts of a video whose frames have these times."""
  span = times[-1] - times[0] if times else 0.0
  # The last frame stays on screen as long as the others do on average.
  length = span + span / max(len(times) - 1, 1)
  return [length * (i + 0.5) / parts for i in range(parts)]


def _multiples(step: float) -> Iterator[float]:
  i = 0
  while True:
    yield i * step
    i += 1


def _at(targets: Iterator[float], slack: float) -> Callable[[Shown], Moments]:
  """What is on screen at ascending targets.

  The last frame stays as long as the others do on average, and ``slack`` of that.
  """
  target = next(targets, None)

  def choose(s: Shown) -> Moments:
    nonlocal target
    last = s.end is None
    end = s.begin + (1 + slack) * s.mean if s.end is None else s.end
    chosen = []
    while target is not None and (s.start + target < end or (last and target == 0)):
      chosen.append((target, s.frame))
      target = next(targets, None)
    return chosen

  return choose


def _one_in(group: int, choose: Callable[[Shown], Moments]) -> Callable[[Shown], Moments]:
  """Of every so many moments the middle one, of a rest that has none its last."""
  count = 0
  held: Moments = []  # the last moment of a group whose middle is still to come

  def choose_some(s: Shown) -> Moments:
    nonlocal count, held
    chosen: Moments = []
    for moment in choose(s):
      place, middle = count % group, (group - 1) // 2
      count += 1
      if place == middle:
        chosen.append(moment)
      held = [moment] if place < middle else []
    return chosen + held if s.end is None else chosen

  return choose_some
