"""Runs the jobs of extraction and building on a Dask cluster: ``--engine=dask://HOST:PORT``.

Beam's own runner for Dask (apache-beam 2.77) is not used. It computes a side input again in each
task that reads it, so that ``WriteToText`` runs every job twice and loses the results.
"""

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import pickle
import pkgutil
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from data_prep import engine_jobs
from data_prep.dataset.options import Options
from data_prep.dataset.writer import ShardPlan
from vidcap_jax.errors import UserError
from vidcap_jax.features import extract_folder
from vidcap_jax.features.sources import Source
from vidcap_jax.features.stream_folders import VideoResult
from vidcap_jax.features.workers import Died
from vidcap_jax.progress import progress

Key = TypeVar('Key')
_CONNECT_S = 30  # for the scheduler to answer
_WORKERS_S = 120  # without any worker until the run stops; a new worker may have to be scheduled
_POLL_S = 2.0  # between two looks at the number of workers while no job ends
_opened = threading.local()  # sources that a worker's thread has opened


class EngineError(UserError):
  """The cluster can't be reached, has no workers, or a job fails there; says which."""


def import_distributed():
  """Imports dask.distributed; ModuleNotFoundError says which extra to install."""
  try:
    import distributed
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'Dask is not installed: install the extra "dask", pip install \'vidcap_jax[dask]\''
    ) from error
  return distributed


@contextlib.contextmanager
def connect(engine: str) -> Iterator[Any]:
  """A client of the scheduler at ``dask://HOST:PORT``.

  Raises:
    EngineError: another form of address, no scheduler answers, or a machine lacks this package.
    ModuleNotFoundError: Dask is not installed.
  """
  match = re.fullmatch(r'dask://([^/\s]+:\d+)/?', engine)
  if not match:
    raise EngineError(
      f'--engine={engine}: not of the form dask://HOST:PORT; Beam and its runners take their flags '
      'after "--" instead'
    )
  distributed = import_distributed()
  address = f'tcp://{match[1]}'
  try:
    client = distributed.Client(address, timeout=_CONNECT_S)
  except OSError as error:
    raise EngineError(
      f'--engine={engine}: no Dask scheduler answers ({error}); start it by "dask scheduler", and '
      f'workers by "dask worker {address}"'
    ) from None
  with client:
    _check_packages(client)
    yield client


def _check_packages(client) -> None:
  """Imports this package on the cluster; a worker without it would stop at its first job.

  Raises:
    EngineError: the scheduler or a worker lacks it; says which.
  """
  imported = 'data_prep:__name__'
  try:
    client.run_on_scheduler(pkgutil.resolve_name, imported)
    answers = client.run(pkgutil.resolve_name, imported, on_error='return')
  except ModuleNotFoundError as error:
    answers = {client.scheduler.address: error}
  for address, answer in answers.items():
    if isinstance(answer, Exception):
      raise EngineError(
        f'{address}: {answer}; the scheduler and all workers need this package: pip install '
        "'vidcap_jax[dask]'"
      )


def run(
  client, work: Callable[..., Any], jobs: Iterable[tuple[Key, tuple]]
) -> Iterator[tuple[Key, Any]]:
  """Yields what ``work`` returns for each job, in order of completion.

  Args:
    client: of ``connect``.
    work: called on a worker with a job's arguments.
    jobs: (key, arguments). As many are on the cluster at a time as it has threads, so that a
      worker that dies repeats, and is blamed on, only jobs that it has begun.

  Returns:
    (key, result), or (key, ``Died``) for a job whose worker died each time it was tried.

  Raises:
    EngineError: the scheduler stopped, there are no workers, or a file is not as it should be.
    Exception: what ``work`` raised; jobs that have not begun are cancelled.
  """
  remaining = iter(jobs)
  running: dict[Any, Key] = {}
  last_seen = time.monotonic()  # when there was a worker
  try:
    while True:
      threads = sum(client.nthreads().values())
      if threads:
        last_seen = time.monotonic()
      elif time.monotonic() - last_seen > _WORKERS_S:
        raise EngineError(_no_workers(client))
      for key, arguments in itertools.islice(remaining, max(0, threads - len(running))):
        running[client.submit(work, *arguments, pure=False)] = key
      if threads and not running:
        return
      for future in _finished(running):
        key = running.pop(future)
        yield key, _result(key, future)
  except (asyncio.CancelledError, concurrent.futures.CancelledError, OSError) as error:
    raise EngineError(
      f'the Dask scheduler at {_address(client)} stopped; the same command resumes'
    ) from error
  finally:
    with contextlib.suppress(Exception):  # if the scheduler has stopped, so have the jobs
      client.cancel(list(running))


def _finished(running: Iterable[Any]) -> Iterable[Any]:
  """The futures that are done; empty if none is after a while."""
  distributed = import_distributed()
  if not running:
    time.sleep(_POLL_S)
    return ()
  try:
    return distributed.wait(list(running), _POLL_S, distributed.client.FIRST_COMPLETED).done
  except TimeoutError:
    return ()


def _result(key: object, future) -> Any:
  """A job's result or ``Died``."""
  try:
    return future.result()
  except import_distributed().KilledWorker as error:
    times = error.allowed_failures + 1
    return Died(f'{times} worker processes ended while it ran; perhaps for lack of memory')
  except (OSError, ModuleNotFoundError) as error:
    raise EngineError(
      f'{key}: on a worker: {type(error).__name__}: {error} (all machines need the files under the '
      'same paths, and the same packages)'
    ) from error


def _address(client) -> str:
  return client.scheduler.address if client.scheduler else 'its address'


def _no_workers(client) -> str:
  address = _address(client)
  return f'{address}: no worker for {_WORKERS_S} s; start some by "dask worker {address}"'


def run_jobs(client, plan: extract_folder.ExtractionPlan) -> extract_folder.Results:
  """Runs an extraction's jobs; yields their results as they are done."""
  shared = (os.getcwd(), engine_jobs.extraction_of(plan))
  jobs = ((v, (*shared, v, *job)) for v, job in plan.jobs.items())
  with engine_jobs.attempts(plan.out):
    for video_id, result in run(client, _extract_video, jobs):
      if isinstance(result, Died):
        result = VideoResult(failed=f'{plan.jobs[video_id][0]}: {result}')
      yield video_id, result


def _extract_video(folder: str, *arguments) -> VideoResult:
  _enter(folder)
  return engine_jobs.extract_video(*arguments)


def build_shards(
  client, options: Options, shards: Sequence[ShardPlan], sources: Sequence[Source]
) -> None:
  """Builds shards; each leaves its result in the data set's folder.

  Raises:
    EngineError: a shard can't be built, or as of ``run``; finished shards are kept.
  """
  # The number makes workers open the files again that an earlier build of equal options has opened.
  setup = pickle.dumps((options, engine_jobs.without_readers(sources), uuid.uuid4().hex))
  jobs = engine_jobs.shard_jobs(shards, sources)
  arguments = ((job.shard.file, (os.getcwd(), setup, job)) for job in jobs)
  with engine_jobs.attempts(pathlib.Path(options.out)):
    results = run(client, _build_shard, arguments)
    for file, result in progress(results, len(jobs), 'writing', unit='shards'):
      if isinstance(result, Died):
        raise EngineError(f'{file}: {result}; run the same command again to resume')


def _build_shard(folder: str, setup: bytes, job: engine_jobs.ShardJob) -> None:
  """Builds a shard; a thread opens the sources once and keeps them for the next shards."""
  _enter(folder)
  options, sources, _ = pickle.loads(setup)
  if getattr(_opened, 'setup', None) != setup:
    _opened.setup, _opened.sources = setup, engine_jobs.open_sources(sources, options)
  engine_jobs.build_shard(options, job, _opened.sources)


def _enter(folder: str) -> None:
  """Makes relative paths mean what they mean where the command runs."""
  with contextlib.suppress(OSError):  # absolute paths need no such folder
    os.chdir(folder)
