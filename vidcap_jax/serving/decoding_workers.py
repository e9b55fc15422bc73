"""Worker processes that decode uploaded files; one that crashes or hangs is replaced.

A thread for each process waits for its answers. The pool of ``features.workers`` runs a list of
jobs to its end and has no time limits; a server's jobs come one by one.
"""

import contextlib
import dataclasses
import multiprocessing
import pathlib
import queue
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from vidcap_jax.errors import UserError
from vidcap_jax.features.workers import end_of, limit_resources
from vidcap_jax.serving import worker_messages
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.media import Decoded, Source

START_SECONDS = 300.0  # until a worker has loaded its networks


@dataclasses.dataclass(frozen=True)
class Job:
  """A file to read.

  Attributes:
    path: of the file.
    name: that the client gave it.
    with_pictures: whether times and pictures of frames are wanted.
  """

  path: pathlib.Path
  name: str
  with_pictures: bool = False


@dataclasses.dataclass(frozen=True)
class Events:
  """Functions that count what happens in workers.

  Attributes:
    replaced: called with 'died' or 'timeout' for a worker that is replaced.
    compiled: called with the number of programs that a worker compiled after its start.
  """

  replaced: Callable[[str], None] = lambda reason: None
  compiled: Callable[[int], None] = lambda programs: None


class WorkerPool:
  """Processes that read files, each one at a time.

  Args:
    source: what models read of a file.
    workers: how many processes.
    memory_bytes: that a worker may add to what it holds at its start.
    events: what to count.
  """

  def __init__(self, source: Source, workers: int, memory_bytes: int, events: Events = Events()):
    self._source, self._count, self._memory_bytes = source, workers, memory_bytes
    self._events = events
    self._seconds = source.limits.decoding_seconds
    self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    self._threads = ThreadPoolExecutor(workers, thread_name_prefix='decoding')
    self._all: set[_Worker] = set()

  def start(self) -> None:
    """Starts the processes and waits until they have loaded their networks.

    Raises:
      UserError: one could not.
    """
    started = [self._start_worker(index) for index in range(self._count)]
    for worker in started:
      try:
        worker.wait_until_ready()
      except _Ended as ended:
        raise UserError(f'a process that decodes files: {ended}; try fewer --workers') from None
      self._idle.put(worker)

  def submit(self, job: Job) -> 'Future[Decoded]':
    """Reads a file; the future's exception is an ``ApiError``."""
    return self._threads.submit(self._run, job)

  def close(self) -> None:
    """Ends the processes; jobs that have not begun are cancelled."""
    self._threads.shutdown(wait=True, cancel_futures=True)
    for worker in self._all:
      worker.stop()

  def _start_worker(self, index: int) -> '_Worker':
    worker = _Worker(self._source, (index, self._count), self._memory_bytes)
    self._all.add(worker)
    return worker

  def _run(self, job: Job) -> Decoded:
    worker = self._idle.get()
    try:
      worker.wait_until_ready()
      result, compiled = worker.ask(job, self._seconds)
    except _Ended as ended:
      self._events.replaced(ended.reason)
      self._all.discard(worker)
      worker.stop()
      worker = self._start_worker(worker.index)  # the next job waits until it is ready
      raise ApiError(ended.code, f'{job.name}: {ended}') from None
    finally:
      self._idle.put(worker)
    self._events.compiled(compiled)
    if isinstance(result, ApiError):
      raise result
    return result


class _Ended(Exception):
  """A worker has to be replaced, for a reason of ``Events.replaced``."""

  def __init__(self, reason: str, code: str, text: str):
    super().__init__(text)
    self.reason, self.code = reason, code


class _Worker:
  """A process, and the pipe to it."""

  def __init__(self, source: Source, share: tuple[int, int], memory_bytes: int):
    context = multiprocessing.get_context('spawn')
    self.index = share[0]
    self._pipe, worker_pipe = context.Pipe()
    arguments = (worker_pipe, source, share, memory_bytes)
    self._process = context.Process(target=_serve, args=arguments, daemon=True)
    self._process.start()
    worker_pipe.close()  # so that the pipe ends with the process
    self._is_ready = False
    self._compiled = 0

  def wait_until_ready(self) -> None:
    """Waits for the answer to the start; ``_Ended`` if it failed."""
    if self._is_ready:
      return
    result, self._compiled = self._answer(START_SECONDS)
    if isinstance(result, ApiError):
      raise _Ended('died', 'no_workers', f'it could not start: {result.message}')
    self._is_ready = True

  def ask(self, job: Job, seconds: float) -> tuple[Decoded | ApiError, int]:
    """The result of a job, and how many programs it compiled."""
    with contextlib.suppress(OSError):  # if the process has died, ``_answer`` reports it
      self._pipe.send(job)
    before = self._compiled
    result, self._compiled = self._answer(seconds)
    return result, self._compiled - before

  def _answer(self, seconds: float) -> tuple[Decoded | ApiError, int]:
    begin = time.monotonic()
    limit = threading.Timer(seconds, self._process.kill)  # ends an answer that has begun, too
    limit.start()
    try:
      return worker_messages.from_bytes(self._pipe.recv_bytes(worker_messages.MOST_BYTES))
    except (EOFError, OSError, ValueError):
      if time.monotonic() - begin >= seconds:
        text = f'decoding took longer than {seconds:g} seconds'
        raise _Ended('timeout', 'decoding_timeout', text) from None
      self._process.join(1)
      cause = end_of(self._process.exitcode)
      raise _Ended('died', 'decoding_failed', f'it cannot be decoded; {cause}') from None
    finally:
      limit.cancel()

  def stop(self) -> None:
    self._process.kill()
    self._process.join()
    self._pipe.close()


def _serve(pipe, source: Source, share: tuple[int, int], memory_bytes: int) -> None:
  """The main function of a worker: answers once it has prepared, and then each job."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
  signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may be sent to the whole process group
  limit_resources(*share)
  count = _count_programs()
  try:
    _prepare(source)
    _limit_memory(memory_bytes)
    result: Decoded | ApiError = Decoded({})
  except Exception as error:
    result = ApiError('no_workers', f'{type(error).__name__}: {error}')
  while True:
    try:
      pipe.send_bytes(worker_messages.to_bytes(result, count()))
      result = _read(pipe.recv(), source)
    except (EOFError, OSError):  # the parent has ended
      return


def _read(job: Job, source: Source) -> Decoded | ApiError:
  from vidcap_jax.serving import media

  try:
    return media.read(job.path, job.name, source, job.with_pictures)
  except ApiError as error:
    return error


def _prepare(source: Source) -> None:
  """Loads and compiles the networks, by reading a clip and a picture."""
  from vidcap_jax.features import video_decoder
  from vidcap_jax.serving import media, warm_up

  video_decoder.allow_formats(media.FORMATS)
  with tempfile.TemporaryDirectory(prefix='vidcap_serve_start_') as folder:
    clip, picture = warm_up.write_files(pathlib.Path(folder))
    media.read(clip, clip.name, source, with_pictures=True)
    with contextlib.suppress(ApiError):  # a model may need sound, which pictures don't have
      media.read(picture, picture.name, source, with_pictures=True)


def _count_programs() -> Callable[[], int]:
  """A function that returns how many programs this process has compiled, for the CPU."""
  import jax

  from vidcap_jax.serving.compilations import count_compilations

  jax.config.update('jax_platforms', 'cpu')  # other devices are the parent's
  return count_compilations()


def _limit_memory(more_bytes: int) -> None:
  """Limits the memory of this process, so that a file can't fill that of the machine."""
  status = pathlib.Path('/proc/self/status')
  if status.is_file():
    lines = dict(line.partition(':')[::2] for line in status.read_text().splitlines())
    limit = int(lines['VmData'].split()[0]) * 1024 + more_bytes
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
  resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
