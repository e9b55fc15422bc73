"""Decoded sound as mono samples at the rates that networks read, on the clock of the pictures."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

# Stamps of sound are rounded and drift a little; what follows within this is taken for unbroken.
_TOLERANCE = Fraction(25, 1000)
# A longer gap, or sound that jumps back by more than this, is a jump of the file's clock.
_LONGEST_GAP = Fraction(600)
_FARTHEST_BACK = Fraction(1)


class Resamplers:
  """Turns decoded sound into float32 (samples,), mono, at each of some rates.

  Sample 0 is at moment 0. Silence stands where the file has no sound; sound before moment 0 is
  left out.

  Args:
    av: PyAV.
    rates: samples a second.
  """

  def __init__(self, av, rates):
    self._av = av
    self._running: dict[int, Any] = dict.fromkeys(rates)
    self._given = dict.fromkeys(rates, 0)  # samples so far
    self._skipped = dict.fromkeys(rates, 0)  # samples to leave out next
    self._format: Any = None
    self._end: Fraction | None = None  # moment at which the sound so far ends
    self._moved = Fraction(0)  # what jumps of the file's clock add to later moments

  def resample(self, frame, moment: Fraction | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (rate, samples) of a frame that begins at a moment.

    Args:
      frame: PyAV's; None flushes what the resamplers hold back.
      moment: seconds; None where the file does not say: right after the frame before.
    """
    if frame is None:
      yield from self._flush()
      return
    yield from self._move_to(frame, moment)
    form = (frame.format.name, frame.layout.name, frame.sample_rate)
    if self._format not in (None, form):
      yield from self._flush()  # a stream may change its format
    self._format = form
    for rate, running in self._running.items():
      if running is None:
        running = self._running[rate] = self._av.AudioResampler(format='fltp', rate=rate)
      frame.pts = None  # pieces are placed here
      for piece in running.resample(frame):
        yield from self._piece(rate, piece)

  def _move_to(self, frame, moment: Fraction | None) -> Iterator[tuple[int, np.ndarray]]:
    """Places a frame after what came before, with silence in a gap."""
    duration = Fraction(frame.samples, frame.sample_rate)
    if self._end is None:
      self._end = Fraction(0)
      unbroken = moment is None
    else:
      moment = None if moment is None else moment + self._moved
      unbroken = moment is None or abs(moment - self._end) <= _TOLERANCE
    if not unbroken:
      assert moment is not None
      if not self._end - _FARTHEST_BACK <= moment <= self._end + _LONGEST_GAP and self._format:
        self._moved += self._end - moment
      else:
        yield from self._flush()
        for rate, given in self._given.items():
          gap = round(moment * rate) - given
          self._skipped[rate] = max(0, -gap)
          if gap > 0:
            self._given[rate] += gap
            yield rate, np.zeros(gap, np.float32)
        self._end = moment
    self._end += duration

  def _flush(self) -> Iterator[tuple[int, np.ndarray]]:
    for rate, running in self._running.items():
      self._running[rate] = None
      for piece in running.resample(None) if running else ():
        yield from self._piece(rate, piece)

  def _piece(self, rate: int, piece) -> Iterator[tuple[int, np.ndarray]]:
    # The mean, because FFmpeg's own mix would make what both channels hold louder.
    samples = piece.to_ndarray().mean(0)
    skipped = min(self._skipped[rate], len(samples))
    self._skipped[rate] -= skipped
    if skipped < len(samples):
      self._given[rate] += len(samples) - skipped
      yield rate, samples[skipped:]
