"""A progress line for long work, on stderr: done, rate, time left.

tqdm 4.70 (tried) would not make it shorter: it needs a wrapper that turns the redrawn line into
lines of a log file, and its private attributes to leave compilation out of the rate. A notebook
redraws a line as a terminal does; for bars there, tqdm.auto would need ipywidgets as well.
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
  """Yields the items and reports the progress.

  On a terminal and in a notebook, one line is rewritten every half second; elsewhere (in a log
  file), a line is printed every 15 seconds. Nothing is printed for shorter work.

  Args:
    items: to yield.
    total: number of units in all items.
    label: what is being done, for the line.
    unit: name of the units.
    each: units in an item; the last may have fewer.
    first: what the first item waits for, e.g. 'compiling'; shown at once, and the time of the first
      item is then not part of the rate. '': nothing.
    stream: to write to; None: stderr.
  """
  stream = sys.stderr if stream is None else stream
  # The stream of a notebook is no terminal, but redraws a line as a terminal does.
  on_terminal = stream.isatty() or type(stream).__module__.startswith('ipykernel.')
  start = time.monotonic()
  interval = 0.5 if on_terminal else 15.0
  last_shown, done, done_at_start, shown = start, 0, 0, False

  def show(state: str) -> None:
    nonlocal shown
    shown = True
    line = f'{label}: {done}/{total} {unit}, {state}'
    stream.write(f'\r{line:<79}' if on_terminal else line + '\n')
    stream.flush()

  try:
    if first and total:
      show(first)
    for item in items:
      yield item
      done = min(done + each, total)
      now = time.monotonic()
      if first and not done_at_start:
        start, last_shown, done_at_start = now, now, done
      elif now - last_shown >= interval:
        last_shown = now
        rate = (done - done_at_start) / (now - start)
        show(f'{rate:.1f}/s, {duration((total - done) / rate)} left')
  finally:
    if on_terminal and shown:
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
