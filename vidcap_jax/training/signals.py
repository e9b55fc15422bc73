"""How a training loop is told to stop: SIGTERM and Ctrl-C."""

import contextlib
import os
import signal
from typing import Any


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
