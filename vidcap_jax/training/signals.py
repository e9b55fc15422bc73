"""SIGTERM and Ctrl-C as requests to stop after the current step."""

import contextlib
import os
import signal
from typing import Any


class StopSignal:
  """A context in which SIGTERM and Ctrl-C set ``received`` instead of ending the process.

  A second Ctrl-C ends the process at once. Outside the main thread signals can't be caught, and the
  context does nothing.

  Attributes:
    received: the signal's number; 0 before one.
  """

  def __init__(self):
    self.received = 0
    self._before: dict[int, Any] = {}

  def __enter__(self) -> 'StopSignal':
    def receive(number, _):
      if self.received and number == signal.SIGINT:
        raise KeyboardInterrupt
      self.received = number
      # Not print: the signal may come while something else is being printed.
      os.write(2, b'%s: stopping after this step\n' % signal_name(number).encode())

    with contextlib.suppress(ValueError):
      for number in (signal.SIGTERM, signal.SIGINT):
        self._before[number] = signal.signal(number, receive)
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)


def signal_name(number: int) -> str:
  """'Ctrl-C', or the signal's name, e.g. 'SIGTERM'."""
  return 'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name
