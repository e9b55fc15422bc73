"""What the main thread of this process works on, and since when.

A process whose main thread hangs, in a collective that another process never enters or in a file
system that does not answer, still sends heartbeats. The watchdog ends it when the main thread has
worked on one thing for too long.
"""

import contextlib
import time
from collections.abc import Iterator

# Part of a run -> how many times as long as a step it may take. A step and the wait for its batch
# are noted for every step, the others as a whole. Parts that are not listed have no limit, such as
# reading the data before the first step.
SHARES = {'stepping': 1, 'waiting_for_input': 1, 'saving': 4, 'compiling': 12, 'evaluating': 12}
_NOTHING = ''
_now: tuple[str, float] = (_NOTHING, 0.0)  # part, and when it began


@contextlib.contextmanager
def doing(part: str) -> Iterator[None]:
  """A context in which the main thread works on a part; inside another one, it is part of that.

  When it ends, the time of the outer one begins anew.
  """
  outer = _now[0]
  _begin(part)
  try:
    yield
  finally:
    _begin(outer)


def restart() -> None:
  """Begins the time of the current part anew, e.g. after all threads were suspended."""
  _begin(_now[0])


def find_stall(timeout: float) -> str:
  """'2000 s of stepping' if the main thread has worked on something for too long, else ''.

  Args:
    timeout: seconds that a step may take; 0: any time.
  """
  part, since = _now
  seconds = time.monotonic() - since
  if not timeout or part not in SHARES or seconds <= timeout * SHARES[part]:
    return ''
  return f'{seconds:.0f} s of {part.replace("_", " ")}'


def _begin(part: str) -> None:
  global _now
  _now = part, time.monotonic()
