"""What a long loop needs around it: its clock, a way to be told to stop, and when to give up."""

import contextlib
import os
import pathlib
import signal
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vidcap_jax.errors import UserError
from vidcap_jax.progress import duration


class Clock:
  """Rate, share of time spent waiting for input, and time to go, since the last reading."""

  def __init__(self, start: int, total: int):
    self.total = total
    self.captions = 0
    self._done = start
    self._step_seconds: float | None = None
    self._reset()

  def _reset(self) -> None:
    self.captions, self._waited, self._since = 0, 0.0, time.perf_counter()

  def watch(self, batches: Iterable[Any]) -> Iterator[Any]:
    """Passes batches on and notes how long each was waited for."""
    iterator = iter(batches)
    while True:
      asked = time.perf_counter()
      try:
        item = next(iterator)
      except StopIteration:
        return
      self._waited += time.perf_counter() - asked
      yield item

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """Leaves out what is done inside: validation and saving."""
    began = time.perf_counter()
    yield
    self._since += time.perf_counter() - began

  def compiled(self, step: int) -> None:
    """The first step is over: its time, with that of compiling it, says nothing of the rest."""
    self._done = step
    self._reset()

  def read(self, step: int) -> dict[str, float]:
    """captions_per_second, input_wait and seconds since the last reading, at ``step`` steps."""
    seconds = max(1e-9, time.perf_counter() - self._since)
    steps, self._done = step - self._done, step
    if steps:
      self._step_seconds = seconds / steps
    values = {
      'captions_per_second': self.captions / seconds,
      'input_wait': self._waited / seconds,
      'seconds': seconds,
    }
    self._reset()
    return values

  def line(self, step: int, record: Mapping[str, float]) -> str:
    """A progress line for people."""
    left = (self.total - step) * (self._step_seconds or 0.0)
    earned = ''
    if 'baseline' in record:
      earned = f'reward {record["reward"]:.3f} (baseline {record["baseline"]:.3f}) '
    return (
      f'step {step}/{self.total} epoch {record["epoch"]:.2f} '
      f'loss {record["smooth_loss"]:.3f} {earned}lr {record["learning_rate"]:.2g} | '
      f'{record["captions_per_second"]:.0f} captions/s, '
      f'input wait {100 * record["input_wait"]:.0f} %, ETA {duration(left)}'
    )


class StopSignal:
  """Within it, SIGTERM or Ctrl-C puts its number into ``received`` instead of ending the process.

  A second Ctrl-C ends it at once. Outside the main thread signals can't be caught, and nothing is
  changed.
  """

  def __init__(self):
    self.received = 0
    self._before: dict[int, Any] = {}

  def __enter__(self) -> 'StopSignal':
    def note(number, _):
      if self.received and number == signal.SIGINT:
        raise KeyboardInterrupt
      self.received = number
      # Not print: the signal may have come while something else was printed.
      os.write(2, b'%s: stopping after this step\n' % signal_name(number).encode())

    with contextlib.suppress(ValueError):
      for number in (signal.SIGTERM, signal.SIGINT):
        self._before[number] = signal.signal(number, note)
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)


def signal_name(number: int) -> str:
  """How people call it."""
  return 'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name


class Diverged(UserError):
  """Too many steps had a loss or gradient that was not finite, or the first one is not let pass."""


def check_finite(step: int, report: Mapping, rows, ids: list[str], most: int, say) -> None:
  """Reports a skipped update with its step and videos; ends the run when there are too many."""
  if report['finite']:
    return
  videos = _videos(rows, ids)
  say(
    f'step {step + 1}: loss {float(report["loss"])}, gradient norm {float(report["grad_norm"])}: '
    f'update skipped; videos: {videos}'
  )
  if (skipped := int(report['skipped'])) > most:
    raise Diverged(
      f'{skipped} updates were not finite, more than train.max_skipped={most}; last at step '
      f'{step + 1} on videos {videos}. Lower optimizer.learning_rate, or look at these features '
      'with python -m data_prep.inspect'
    )


@contextlib.contextmanager
def first_nan(step: int, rows, ids: list[str]) -> Iterator[None]:
  """Within it, a step that ``jax_debug_nans`` ends is told in a line, with the operation.

  Raises:
    Diverged: it was ended.
  """
  try:
    yield
  except FloatingPointError as error:
    here = str(pathlib.Path(__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(here)]
    raise Diverged(
      f'step {step + 1}: {error} at {frames[-1].filename}:{frames[-1].lineno} '
      f'(runtime.check_nans); videos: {_videos(rows, ids)}'
    ) from error


def _videos(rows, ids: list[str]) -> str:
  return ', '.join(ids[i] for i in rows if i >= 0)
