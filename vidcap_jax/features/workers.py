"""Runs jobs in worker processes, one job at a time in each; if a process dies, only its job fails.

Processes are spawned, not forked, and each gets its own share of the cores, so that the threads of
their numerical libraries do not compete.

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
import threading
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import connection
from typing import Any, TypeVar

from vidcap_jax.errors import UserError

Key = TypeVar('Key')

_BLAS_THREADS = 'OPENBLAS_NUM_THREADS'  # read when NumPy is loaded
_environment_lock = threading.Lock()
_OOM_SCORE = 500  # of 1000: when memory runs out, the kernel kills a worker before other processes


class Died(str):
  """Replaces a result: the job's process crashed or was killed; says how."""


class StartError(UserError):
  """A process ended before its first job, while it prepared."""


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
  """Yields what ``work`` returns for each job, in order of completion.

  Args:
    work: called in a worker with the job's arguments; a function of a module.
    jobs: (key, arguments).
    workers: how many processes.
    prepare: called once in each worker, before its first job; a function of a module.

  Yields:
    (key, result), or (key, ``Died``) for a job whose process ended; a new process replaces it.

  Raises:
    Exception: what ``prepare`` or ``work`` raised; all processes are stopped.
    StartError: a process ended while it prepared.
  """
  remaining = iter(jobs)
  running: dict[Any, _Worker] = {}

  def start(share: tuple[int, int]) -> None:
    if (job := next(remaining, None)) is not None:
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
        elif (job := next(remaining, None)) is not None:
          worker.assign(job)
        else:
          del running[pipe]
          worker.stop()
  finally:
    for worker in running.values():
      worker.stop()


class _Worker:
  """A process and its current job."""

  def __init__(self, work, prepare, share: tuple[int, int], job: tuple[Any, tuple]):
    context = multiprocessing.get_context('spawn')
    self.share = share
    self.pipe, worker_pipe = context.Pipe()
    arguments = (worker_pipe, work, prepare, share)
    self._process = context.Process(target=_serve, args=arguments, daemon=True)
    start_process(self._process)
    worker_pipe.close()  # so that the pipe ends with the process
    self._ready = False
    self.assign(job)

  def assign(self, job: tuple[Any, tuple]) -> None:
    self.key, arguments = job
    with contextlib.suppress(OSError):  # if the process has died, ``answer`` reports it
      self.pipe.send(arguments)

  def answer(self) -> Any:
    """The job's result or ``Died``; None if the process reports that it has prepared."""
    try:
      raised, value = self.pipe.recv()
    except (EOFError, OSError):
      self._process.join()
      cause = end_of(self._process.exitcode)
      self.pipe.close()
      if not self._ready:
        raise StartError(f'while loading the networks, {cause}; try fewer --workers') from None
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


def end_of(code: int | None) -> str:
  if code is None or code >= 0:
    return f'a worker process ended (exit code {code})'
  name = signal.Signals(-code).name if -code in set(signal.Signals) else f'signal {-code}'
  hint = '; perhaps for lack of memory' if name == 'SIGKILL' else ''
  return f'a worker process was ended by {name}{hint}'


def _serve(pipe, work, prepare, share: tuple[int, int]) -> None:
  """The main function of a worker: replies once it has prepared, and then for each job."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the parent stops its workers
  limit_resources(*share)
  call: Callable[[], Any] = prepare
  while True:
    try:
      reply = (False, call())
    except Exception as error:
      reply = (True, _picklable(error))
    try:
      pipe.send(reply)
      call = functools.partial(work, *pipe.recv())
    except (EOFError, OSError):  # the parent has ended
      return


def start_process(process: multiprocessing.process.BaseProcess) -> None:
  """Starts a process in which NumPy's matrix products take one thread, unless a variable says more.

  ``limit_resources`` binds only the main thread: others of OpenBLAS, which exist by then, would
  compete with other workers, and two workers were seen to work on a product without end.
  """
  with _environment_lock:
    given = os.environ.get(_BLAS_THREADS)
    os.environ[_BLAS_THREADS] = given or '1'
    try:
      process.start()
    finally:
      if given is None:
        del os.environ[_BLAS_THREADS]


def limit_resources(index: int, workers: int) -> None:
  """Binds this process to its share of the cores, and raises its score for the OOM killer."""
  available = cores()
  if hasattr(os, 'sched_setaffinity'):
    begin, end = (i * len(available) // workers for i in (index, index + 1))
    share = available[begin:end] or [available[index % len(available)]]
    os.sched_setaffinity(0, share)
  with contextlib.suppress(OSError):
    pathlib.Path('/proc/self/oom_score_adj').write_text(str(_OOM_SCORE))


def _picklable(error: Exception) -> Exception:
  try:
    return pickle.loads(pickle.dumps(error))
  except Exception:
    return RuntimeError(f'{type(error).__name__}: {error}')
