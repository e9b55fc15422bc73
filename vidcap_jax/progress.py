"""A progress line for long work, on stderr: done, rate, time left.

tqdm 4.70 (tried) would not make it shorter: it needs a wrapper that turns the redrawn line into
lines of a log file, and its private attributes to leave compilation out of the rate.
"""

import sys
import time
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar('T')


def progress(
  items: Iterable[T],
  total: int,
  label: str,
  *,
  unit: str = 'videos',
  each: int = 1,
  first: str = '',
  stream=None,
) -> Generator[T, None, None]:
  """Yields the items, reporting how far they are.

  On a terminal one line is rewritten each half second; elsewhere (a log file) a line is printed
  every 15 seconds. Short work prints nothing.

  Args:
    items: what is worked through.
    total: units in all of them.
    label: what is done.
    unit: what is counted.
    each: units of an item; the last may hold fewer.
    first: what the first item waits for, if that is long: told at once, and left out of the rate.
    stream: written to; None: stderr.
  """
  stream = sys.stderr if stream is None else stream
  live = stream.isatty()
  start = time.monotonic()
  interval = 0.5 if live else 15.0
  last, done, before, shown = start, 0, 0, False

  def show(state: str) -> None:
    nonlocal shown
    shown = True
    line = f'{label}: {done}/{total} {unit}, {state}'
    stream.write(f'\r{line:<79}' if live else line + '\n')
    stream.flush()

  try:
    if first and total:
      show(first)
    for item in items:
      yield item
      done = min(done + each, total)
      now = time.monotonic()
      if first and not before:
        start, last, before = now, now, done
      elif now - last >= interval:
        last = now
        rate = (done - before) / (now - start)
        show(f'{rate:.1f}/s, {duration((total - done) / rate)} left')
  finally:
    if live and shown:
      stream.write('\r' + ' ' * 79 + '\r')
      stream.flush()


def duration(seconds: float) -> str:
  """``45s``, ``3m20s`` or ``2h05m``."""
  seconds = round(seconds)
  if seconds < 60:
    return f'{seconds}s'
  if seconds < 3600:
    return f'{seconds // 60}m{seconds % 60:02d}s'
  return f'{seconds // 3600}h{seconds % 3600 // 60:02d}m'
