"""Functions for worker processes, which import them by name."""

import os
import signal
import time


def prepare_nothing() -> None:
  """What processes do first."""


def die() -> None:
  os.kill(os.getpid(), signal.SIGKILL)


def fail_to_prepare() -> None:
  raise OSError('no weights')


def work(number: int) -> tuple[int, int, list[int]]:
  """(square, process, its cores); 2 ends the process, 3 takes longer, below 0 fails."""
  if number == 2:
    die()
  if number == 3:
    time.sleep(0.3)
  if number < 0:
    raise ValueError(f'{number}: negative')
  cores = sorted(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else []
  return number**2, os.getpid(), cores


def blas_threads(_):
  """The threads of NumPy's products in this process, by the variable that is read at its start."""
  return os.environ['OPENBLAS_NUM_THREADS']
