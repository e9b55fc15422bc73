"""Runs jobs in worker processes, one at a time in each; a process that dies costs its job alone.

Processes are spawned, not forked, and each gets a share of the cores, so that the threads of its
numerical libraries do not get in each other's way.

pebble 5.2 (tried) would save 50 lines, but does not say why a process can't load its networks,
restarts one that dies there for as long as another works, and gives no process its own cores.
"""

import contextlib
import functools
import multiprocessing
import os
import pathlib
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import Any, TypeVar

from vidcap_jax.errors import UserError

Key = TypeVar('Key')

_EXPENDABLE = 500  # of 1000: where memory runs out, a worker goes before anything else


class Died(str):
  """In place of a result: the job's process ended, killed or crashed; says how."""


class StartError(UserError):
  """A process that ended before it could begin its first job."""


def cores() -> list[int]:
  """The cores that this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return sorted(os.sched_getaffinity(0))
  return list(range(os.cpu_count() or 1))


def run(
  work: Callable[..., Any],
  jobs: Iterable[tuple[Key, tuple]],
  workers: int,
  prepare: Callable[[], Any],
) -> Iterator[tuple[Key, Any]]:
  """What ``work`` returns for each job, as jobs are done.

  Args:
    work: called in a worker with the job's arguments; must be found by its name in a module.
    jobs: (key, arguments).
    workers: how many processes.
    prepare: called once in each worker, before its first job.

  Yields:
    (key, result), or (key, ``Died``) for a job whose process ended; another takes its place.

  Raises:
    Exception: what ``prepare`` or ``work`` raised; all processes are stopped.
    StartError: one ended while it prepared.
  """
  left = iter(jobs)
  running: dict[Any, _Worker] = {}

  def start(share: tuple[int, int]) -> None:
    if (job := next(left, None)) is not None:
      worker = _Worker(work, prepare, share, job)
      running[worker.pipe] = worker

  try:
    for i in range(workers):
      start((i, workers))
    while running:
      for pipe in connection.wait(list(running)):
        worker = running[pipe]
        answer = worker.answer()
        if answer is None:
          continue
        yield worker.key, answer
        if isinstance(answer, Died):
          del running[pipe]
          start(worker.share)
        elif (job := next(left, None)) is not None:
          worker.give(job)
        else:
          del running[pipe]
          worker.stop()
  finally:
    for worker in running.values():
      worker.stop()


class _Worker:
  """A process, and the job that it was given."""

  def __init__(self, work, prepare, share: tuple[int, int], job: tuple[Any, tuple]):
    context = multiprocessing.get_context('spawn')
    self.share = share
    self.pipe, theirs = context.Pipe()
    self._process = context.Process(target=_serve, args=(theirs, work, prepare, share), daemon=True)
    self._process.start()
    theirs.close()  # so that the end of the process ends the pipe
    self._ready = False
    self.give(job)

  def give(self, job: tuple[Any, tuple]) -> None:
    self.key, arguments = job
    with contextlib.suppress(OSError):  # of one that has died: its answer says so
      self.pipe.send(arguments)

  def answer(self) -> Any:
    """The job's result or ``Died``; None if the process has only got ready."""
    try:
      raised, value = self.pipe.recv()
    except (EOFError, OSError):
      self._process.join()
      cause = _cause(self._process.exitcode)
      self.pipe.close()
      if not self._ready:
        raise StartError(f'while it loaded the networks, {cause}; try fewer --workers') from None
      return Died(cause)
    if raised:
      raise value
    if not self._ready:
      self._ready = True
      return None
    return value

  def stop(self) -> None:
    self._process.terminate()
    self._process.join()
    self.pipe.close()


def _cause(code: int | None) -> str:
  if code is None or code >= 0:
    return f'a worker process ended (exit code {code})'
  name = signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'
  hint = '; perhaps for lack of memory' if name == 'SIGKILL' else ''
  return f'a worker process was ended by {name}{hint}'


def _serve(pipe, work, prepare, share: tuple[int, int]) -> None:
  """A worker's life: answers once when it is ready, and then for each job."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and stops its workers
  _settle(*share)
  call: Callable[[], Any] = prepare
  while True:
    try:
      reply = (False, call())
    except Exception as error:
      reply = (True, _portable(error))
    try:
      pipe.send(reply)
      call = functools.partial(work, *pipe.recv())
    except (EOFError, OSError):  # the parent has gone
      return


def _settle(index: int, workers: int) -> None:
  """Keeps to a share of the cores, and offers itself where memory runs out."""
  mine = cores()
  if hasattr(os, 'sched_setaffinity'):
    begin, end = (i * len(mine) // workers for i in (index, index + 1))
    os.sched_setaffinity(0, mine[begin:end] or [mine[index % len(mine)]])
  with contextlib.suppress(OSError):
    pathlib.Path('/proc/self/oom_score_adj').write_text(str(_EXPENDABLE))


def _portable(error: Exception) -> Exception:
  try:
    return pickle.loads(pickle.dumps(error))
  except Exception:
    return RuntimeError(f'{type(error).__name__}: {error}')
