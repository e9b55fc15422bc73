"""Ends this process when another process of its job fails, stops sending heartbeats or hangs.

Every process writes heartbeats to the key-value store of JAX's coordination service, which runs in
process 0. Process 0 checks those of all processes, the others only those of process 0, so that the
work grows linearly with the number of processes. A process that fails, or finds another one lost,
writes a failure to the store, and every process that reads it ends.

A call to the store blocks while process 0 is stopped, so one thread calls the store and another one
checks. Both run while the main thread compiles, waits in a collective or scores captions.

A process whose main thread makes no progress (``activity``) writes a failure itself.

Before a process ends because another is lost or hangs, the stacks of its threads are written to
stderr: they show what it was waiting for.
"""

import contextlib
import faulthandler
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

from vidcap_jax.distributed import activity

# The exit code of a process that ended because another was lost: the same command can resume.
LOST = 75

# Keys in the store: the heartbeats of all processes but 0, then that of 0 and the failure.
_HEARTBEATS, _MAIN = 'vidcap_jax/heartbeats/', 'vidcap_jax/main/'


class Store(Protocol):
  """The methods of the coordination service's client that are used here."""

  def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None: ...

  def key_value_dir_get(self, key: str) -> list[tuple[str, str]]: ...


class Watchdog:
  """The two threads of one process.

  Attributes:
    interval: seconds between heartbeats.
    patience: seconds without a heartbeat after which a process counts as lost. Reading the last one
      takes up to one interval, checking one and reporting two, so that all processes have ended
      ``timeout`` seconds after it.
  """

  def __init__(
    self,
    store: Store,
    index: int,
    count: int,
    timeout: float,
    stall_timeout: float = 0.0,
    end: Callable[[int], object] = os._exit,
  ):
    """Starts the threads.

    Args:
      store: shared by all processes.
      index: of this process.
      count: of processes.
      timeout: seconds within which all processes end when one is lost.
      stall_timeout: seconds that a step of the main thread may take; 0: any time.
      end: called with the exit code; does not return.
    """
    self.interval = min(2.0, timeout / 10)
    self.patience = timeout - 4 * self.interval
    self._stall_timeout = stall_timeout
    self._store, self._index, self._count, self._end = store, index, count, end
    now = time.monotonic()
    watched = range(1, count) if index == 0 else (0,)
    # process -> its last heartbeat, and when that arrived
    self._heartbeats = dict.fromkeys(watched, ('', now))
    self._failure: tuple[int, str] | None = None  # exit code, reason
    self._stopped = threading.Event()
    self._threads = [
      threading.Thread(target=run, name=f'watchdog {run.__name__}', daemon=True)
      for run in (self._communicate, self._check)
    ]
    for thread in self._threads:
      thread.start()

  def stop(self) -> None:
    """Stops sending and checking heartbeats, once all processes are done."""
    self._stopped.set()

  def announce(self, code: int, reason: str) -> None:
    """Makes the other processes end with the same exit code, and print the reason.

    Process 0 then waits for them to read it, because the store ends with process 0.
    """
    self._stopped.set()
    _write_failure(self._store, code, reason)
    if self._index == 0:
      time.sleep(2.5 * self.interval)

  def wait_for_lost_process(self) -> None:
    """Waits ``timeout`` seconds; if another process turns out to be lost, this one ends meanwhile.

    For an error that the loss of another process may have caused.
    """
    time.sleep(self.patience + 4 * self.interval)

  def _communicate(self) -> None:
    number = 0
    while not self._stopped.wait(self.interval if number else 0):
      number += 1
      try:
        key = f'{_HEARTBEATS}{self._index}' if self._index else f'{_MAIN}heartbeat'
        self._store.key_value_set(key, str(number), allow_overwrite=True)
        self._record(self._store.key_value_dir_get(_MAIN))
        if self._index == 0:
          self._record(self._store.key_value_dir_get(_HEARTBEATS))
      except Exception:
        continue

  def _record(self, entries: list[tuple[str, str]]) -> None:
    for key, value in entries:
      name = key.rpartition('/')[2]
      if name == 'failure':
        code, _, reason = value.partition(' ')
        self._failure = int(code), reason
        continue
      process = 0 if name == 'heartbeat' else int(name)
      if process in self._heartbeats and self._heartbeats[process][0] != value:
        self._heartbeats[process] = (value, time.monotonic())

  def _check(self) -> None:
    last_check = time.monotonic()
    while not self._stopped.wait(self.interval):
      now = time.monotonic()
      if now - last_check > 3 * self.interval:
        # This process itself was stopped or too busy, so the heartbeats of others look too old.
        self._heartbeats = {i: (beat, now) for i, (beat, _) in self._heartbeats.items()}
        activity.restart()
      last_check = now
      if self._failure:
        if self._index == 0:  # the store ends with it, and others may not have read the failure
          time.sleep(2.5 * self.interval)
        self._end_process(*self._failure)
      lost = [i for i, (_, since) in self._heartbeats.items() if now - since > self.patience]
      if lost:
        names = ', '.join(map(str, lost))
        reason = f'process {names} sent no heartbeat for {self.patience:.0f} s'
        if self._index == 0:
          self._report(reason)
        self._end_process(LOST, reason)
      if stall := activity.find_stall(self._stall_timeout):
        reason = f'process {self._index} makes no progress, after {stall}'
        self._report(reason)
        self._end_process(LOST, reason)

  def _report(self, reason: str) -> None:
    """Makes the other processes end too, and waits for them to read the reason."""
    _write_failure(self._store, LOST, reason)
    time.sleep(2 * self.interval)

  def _end_process(self, code: int, reason: str) -> None:
    # Not print, whose lock the main thread may hold forever.
    line = f'process {self._index} of {self._count}: ended, because {reason}\n'
    os.write(2, line.encode())
    if code == LOST:  # a failure has been printed with its own traceback
      _write_stacks()
    self._stopped.set()
    self._end(code)


def _write_stacks() -> None:
  """Writes the Python stacks of all threads to stderr; it needs no lock that a thread may hold."""
  with contextlib.suppress(OSError, ValueError):  # stderr may be closed
    os.write(2, b'stacks of all threads, the innermost call first:\n')
    faulthandler.dump_traceback(file=2, all_threads=True)


def _write_failure(store: Store, code: int, reason: str) -> None:
  try:
    store.key_value_set(f'{_MAIN}failure', f'{code} {reason}')
  except Exception:
    return
