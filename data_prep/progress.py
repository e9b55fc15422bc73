"""A progress line for long work, on stderr: done, rate, time left."""

import sys
import time
from collections.abc import Generator, Iterable
from typing import TypeVar

T = TypeVar('T')


def progress(
  items: Iterable[T], total: int, label: str, *, unit: str = 'videos', stream=None
) -> Generator[T, None, None]:
  """Yields the items, reporting how far they are.

  On a terminal one line is rewritten each half second; elsewhere (a log file) a line is printed
  every 15 seconds. Short work prints nothing.
  """
  stream = sys.stderr if stream is None else stream
  live = stream.isatty()
  start = time.monotonic()
  interval = 0.5 if live else 15.0
  last, done, shown = start, 0, False
  try:
    for item in items:
      yield item
      done += 1
      now = time.monotonic()
      if now - last >= interval:
        last, shown = now, True
        rate = done / (now - start)
        left = duration((total - done) / rate)
        line = f'{label}: {done}/{total} {unit}, {rate:.1f}/s, {left} left'
        stream.write(f'\r{line:<79}' if live else line + '\n')
        stream.flush()
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
