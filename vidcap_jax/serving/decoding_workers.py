"""Worker processes that decode uploaded files; one that crashes or hangs is replaced.

A thread for each process waits for its answers. A worker gets jobs once it is ready. The pool of
``features.workers`` runs a list of jobs to its end and has no time limits; a server's jobs come one
by one.
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
from vidcap_jax.features.workers import end_of, limit_resources, start_process
from vidcap_jax.serving import worker_messages
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.media import Decoded, Source

START_SECONDS = 300.0  # until a worker has loaded its networks
_RESTART_SECONDS = 5.0  # before another one is started in place of one that could not start


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
    self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()  # that are ready
    self._threads = ThreadPoolExecutor(workers, thread_name_prefix='decoding')
    self._all: set[_Worker] = set()
    self._lock = threading.Lock()  # of _all and _closing
    self._closing = threading.Event()
    self._last_taken = 0.0  # when a job got a worker

  def start(self) -> None:
    """Starts the processes and waits until they have loaded their networks.

    Raises:
      UserError: one could not.
    """
    try:
      started = [self._start_worker(index) for index in range(self._count)]
      for worker in started:
        worker.wait_until_ready()
        self._idle.put(worker)
    except _Ended as ended:
      raise UserError(f'a process that decodes files: {ended}; try fewer --workers') from None

  def submit(self, job: Job) -> 'Future[Decoded]':
    """Reads a file; the future's exception is an ``ApiError``."""
    return self._threads.submit(self._run, job, time.monotonic())

  def close(self) -> None:
    """Ends the processes, also those that are starting; no request waits for a job any more."""
    with self._lock:
      self._closing.set()
    for worker in self._all:
      worker.kill()
    for _ in range(self._count):
      self._idle.put(None)  # ends the waiting of threads
    self._threads.shutdown(wait=True, cancel_futures=True)
    for worker in self._all:
      worker.join()

  def _start_worker(self, index: int) -> '_Worker':
    with self._lock:
      if self._closing.is_set():
        raise _stopping()
      worker = _Worker(self._source, (index, self._count), self._memory_bytes)
      self._all.add(worker)
    return worker

  def _run(self, job: Job, submitted: float) -> Decoded:
    worker = self._take(submitted)
    try:
      result, compiled = worker.ask(job, self._seconds)
    except _Ended as ended:
      self._replace(worker, ended.reason)
      raise ApiError(ended.code, f'{job.name}: {ended}') from None
    self._idle.put(worker)
    self._events.compiled(compiled)
    if isinstance(result, ApiError):
      raise result
    return result

  def _take(self, submitted: float) -> '_Worker':
    """An idle worker; those that died while they were idle are replaced.

    Raises:
      ApiError: none became idle in time.
    """
    deadline = max(submitted, self._last_taken) + self._seconds
    while True:
      try:
        worker = self._idle.get(timeout=max(0.0, deadline - time.monotonic()))
      except queue.Empty:
        text = f'no process that decodes files was free within {self._seconds:g} seconds'
        raise ApiError('no_workers', f'{text}; try again later', {'Retry-After': '5'}) from None
      if worker is None:
        raise ApiError('stopping', 'the server is stopping')
      if worker.is_alive():
        self._last_taken = time.monotonic()
        return worker
      self._replace(worker, 'died')

  def _replace(self, worker: '_Worker', reason: str) -> None:
    """Ends a worker; another one is idle once it is ready."""
    if self._closing.is_set():
      return
    self._events.replaced(reason)
    self._end(worker)
    threading.Thread(target=self._start_another, args=(worker.index,), daemon=True).start()

  def _end(self, worker: '_Worker') -> None:
    with self._lock:
      if self._closing.is_set():  # ``close`` ends it
        return
      self._all.discard(worker)
    worker.stop()

  def _start_another(self, index: int) -> None:
    """Starts a worker in place of another one; if that fails, it tries again after a while."""
    while not self._closing.is_set():
      with contextlib.suppress(_Ended):
        worker = self._start_worker(index)
        try:
          worker.wait_until_ready()
        except _Ended:
          self._end(worker)
          raise
        self._idle.put(worker)
        return
      self._closing.wait(_RESTART_SECONDS)


class _Ended(Exception):
  """A worker has to be replaced, for a reason of ``Events.replaced``."""

  def __init__(self, reason: str, code: str, text: str):
    super().__init__(text)
    self.reason, self.code = reason, code


def _stopping() -> _Ended:
  return _Ended('died', 'stopping', 'the server is stopping')


class _Worker:
  """A process, and the pipe to it."""

  def __init__(self, source: Source, share: tuple[int, int], memory_bytes: int):
    context = multiprocessing.get_context('spawn')
    self.index = share[0]
    self._pipe, worker_pipe = context.Pipe()
    self._folder = tempfile.TemporaryDirectory(prefix='vidcap_serve_start_')  # a kill leaves it
    arguments = (worker_pipe, source, share, memory_bytes, self._folder.name)
    self._process = context.Process(target=_serve, args=arguments, daemon=True)
    start_process(self._process)
    worker_pipe.close()  # so that the pipe ends with the process
    self._compiled = 0

  def wait_until_ready(self) -> None:
    """Waits for the answer to the start; ``_Ended`` if it failed."""
    result, self._compiled = self._answer(START_SECONDS)
    self._folder.cleanup()
    if isinstance(result, ApiError):
      raise _Ended('died', 'no_workers', f'it could not start: {result.message}')

  def is_alive(self) -> bool:
    return self._process.is_alive()

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
        text = (
          f'decoding took longer than {seconds:g} seconds; send a shorter clip, or start the '
          'server with more --decoding_seconds'
        )
        raise _Ended('timeout', 'decoding_timeout', text) from None
      self._process.join(1)
      cause = end_of(self._process.exitcode)
      raise _Ended('died', 'decoding_failed', f'it cannot be decoded; {cause}') from None
    finally:
      limit.cancel()

  def kill(self) -> None:
    self._process.kill()

  def join(self) -> None:
    self._process.join()
    self._folder.cleanup()

  def stop(self) -> None:
    self.kill()
    self.join()
    self._pipe.close()


def _serve(pipe, source: Source, share: tuple[int, int], memory_bytes: int, folder: str) -> None:
  """The main function of a worker: answers once it has prepared, and then each job."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
  signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may be sent to the whole process group
  limit_resources(*share)
  count = _count_programs()
  try:
    _prepare(source, pathlib.Path(folder))
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


def _prepare(source: Source, folder: pathlib.Path) -> None:
  """Loads and compiles the networks, by reading a clip and a picture that it writes to a folder."""
  from vidcap_jax.features import video_decoder
  from vidcap_jax.serving import media, warm_up

  video_decoder.allow_formats(media.FORMATS)
  clip, picture = warm_up.write_files(folder)
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
