"""Ends this process when another one of its job falls silent or fails.

Every process leaves a sign of life in the key-value store of JAX's coordination service, which is
process 0's. Process 0 looks at all of them, the others at process 0's alone, so that the work grows
with the number of processes only. Whoever finds another silent, or fails itself, leaves a verdict
there, and everyone who reads it ends.

Talking to the store may block for as long as process 0 is stopped, so one thread talks and another
one judges. Both run while the main thread compiles, waits in a collective or scores captions.
"""

import os
import threading
import time
from typing import Protocol

# The exit code of a process that ended because of another: nothing here is wrong, start it again.
LOST = 75

_SIGNS, _MAIN = 'vidcap_jax/signs/', 'vidcap_jax/main/'


class Store(Protocol):
  """What is used of the coordination service's client."""

  def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None: ...

  def key_value_dir_get(self, key: str) -> list[tuple[str, str]]: ...


class Watchdog:
  """The two threads of one process.

  Attributes:
    interval: seconds between signs of life.
    patience: seconds without one after which a process counts as lost; with an interval to hear the
      last, one to look and two to say so, everyone has ended ``timeout`` seconds after it.
  """

  def __init__(self, store: Store, index: int, count: int, timeout: float, end=os._exit):
    """Starts watching.

    Args:
      store: shared by all processes.
      index, count: of this process, and how many there are.
      timeout: seconds within which the loss of one ends all.
      end: called with the exit code, never to return.
    """
    self.interval = min(2.0, timeout / 10)
    self.patience = timeout - 4 * self.interval
    self._store, self._index, self._count, self._end = store, index, count, end
    now = time.monotonic()
    watched = range(1, count) if index == 0 else (0,)
    self._heard = dict.fromkeys(watched, ('', now))  # process -> its last sign, and when it changed
    self._verdict: tuple[int, str] | None = None  # exit code, and why
    self._stopped = threading.Event()
    self._threads = [
      threading.Thread(target=run, name=f'watchdog {run.__name__}', daemon=True)
      for run in (self._talk, self._judge)
    ]
    for thread in self._threads:
      thread.start()

  def stop(self) -> None:
    """No more signs, and no more judging: all processes have come to their end."""
    self._stopped.set()

  def announce(self, code: int, reason: str) -> None:
    """Tells the others that this process ends and why, so that they end too, with the same code.

    Process 0 gives them time to read it: the store goes with it.
    """
    self._stopped.set()
    _leave_verdict(self._store, code, reason)
    if self._index == 0:
      time.sleep(2.5 * self.interval)

  def wait_for_verdict(self) -> None:
    """Returns only if no other process has fallen silent: after a failure that may be due to it.

    That takes the whole ``timeout``.
    """
    time.sleep(self.patience + 4 * self.interval)

  def _talk(self) -> None:
    number = 0
    while not self._stopped.wait(self.interval if number else 0):
      number += 1
      try:
        sign = f'{_SIGNS}{self._index}' if self._index else f'{_MAIN}sign'
        self._store.key_value_set(sign, str(number), allow_overwrite=True)
        self._note(self._store.key_value_dir_get(_MAIN))
        if self._index == 0:
          self._note(self._store.key_value_dir_get(_SIGNS))
      except Exception:
        continue

  def _note(self, entries: list[tuple[str, str]]) -> None:
    for key, value in entries:
      name = key.rpartition('/')[2]
      if name == 'verdict':
        code, _, reason = value.partition(' ')
        self._verdict = int(code), reason
        continue
      process = 0 if name == 'sign' else int(name)
      if process in self._heard and self._heard[process][0] != value:
        self._heard[process] = (value, time.monotonic())

  def _judge(self) -> None:
    looked = time.monotonic()
    while not self._stopped.wait(self.interval):
      now = time.monotonic()
      if now - looked > 3 * self.interval:
        # This very process was stopped, or had no time for threads: it knows nothing of others.
        self._heard = {i: (sign, now) for i, (sign, _) in self._heard.items()}
      looked = now
      if self._verdict:
        self._leave(*self._verdict)
      silent = [i for i, (_, since) in self._heard.items() if now - since > self.patience]
      if silent:
        names = ', '.join(map(str, silent))
        reason = f'process {names} gave no sign of life for {self.patience:.0f} s'
        if self._index == 0:
          _leave_verdict(self._store, LOST, reason)
          time.sleep(2 * self.interval)  # for the others to read it
        self._leave(LOST, reason)

  def _leave(self, code: int, reason: str) -> None:
    # Not print: the main thread may have died or stopped in the middle of printing.
    line = f'process {self._index} of {self._count}: ended, because {reason}\n'
    os.write(2, line.encode())
    self._stopped.set()
    self._end(code)


def _leave_verdict(store: Store, code: int, reason: str) -> None:
  try:
    store.key_value_set(f'{_MAIN}verdict', f'{code} {reason}')
  except Exception:
    return
