"""Captions the files or features of requests: queues, limits, and the shape of results."""

import asyncio
import contextlib
import dataclasses
import logging
import math
import pathlib
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

from starlette.datastructures import UploadFile

from vidcap_jax.data.records import Video
from vidcap_jax.errors import UserError
from vidcap_jax.inference import feature_inputs
from vidcap_jax.progress import progress
from vidcap_jax.serving import attention_json, fields, uploads, warm_up
from vidcap_jax.serving.batching import Batcher, Waiting
from vidcap_jax.serving.compilations import count_compilations
from vidcap_jax.serving.decoding_workers import Events, Job, WorkerPool
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.feature_parts import read_npy
from vidcap_jax.serving.fields import Wanted
from vidcap_jax.serving.media import Decoded, Source
from vidcap_jax.serving.metrics import Metrics
from vidcap_jax.serving.programs import Captioned, Programs
from vidcap_jax.serving.settings import Capacity, Limits

_LOG = logging.getLogger(__name__)
_MOST_RETRY_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What became of a file, or of the features of a video.

  Attributes:
    video_id: its name.
    decoded: what was read; None if that failed.
    captioned: its captions; None after an error.
    error: why there are no captions.
    with_attention: whether the attention weights are wanted.
  """

  video_id: str
  decoded: Decoded | None = None
  captioned: Captioned | None = None
  error: ApiError | None = None
  with_attention: bool = False

  def to_dict(self) -> dict[str, Any]:
    """A result of the answer."""
    if self.decoded is None or self.captioned is None:
      error = self.error.to_dict() if self.error else None
      empty: dict[str, Any] = {
        'caption': None,
        'log_prob': None,
        'captions': [],
        'attention': None,
        'notes': [],
      }
      return {'video_id': self.video_id, **empty, 'error': error}
    best = self.captioned.candidates[0]
    attention = None
    if self.with_attention:
      attention = attention_json.describe(best.caption, self.captioned.attention, self.decoded)
    return {
      'video_id': self.video_id,
      **dataclasses.asdict(best),
      'captions': [dataclasses.asdict(each) for each in self.captioned.candidates],
      'attention': attention,
      'notes': list(self.decoded.notes),
      'error': None,
    }


async def _all(tasks: Iterable[Awaitable[Outcome]]) -> list[Outcome]:
  """The results of tasks; if it is cancelled, it waits until all of them have ended."""
  results = []
  for result in await asyncio.gather(*tasks, return_exceptions=True):
    if isinstance(result, BaseException):
      raise result
    results.append(result)
  return results


class Service:
  """The captioner of a server.

  Attributes:
    programs: that caption.
    limits, capacity: see their classes.
    source: what models read.
    reads_files: whether features can be made of files; otherwise only features are captioned.
    metrics: that are counted.
    state: 'starting', 'ready' or 'stopping'.
  """

  def __init__(self, programs: Programs, source: Source, capacity: Capacity, reads_files: bool):
    self.programs, self.source, self.capacity = programs, source, capacity
    self.limits: Limits = source.limits
    self.reads_files = reads_files
    self.metrics = Metrics()
    self.state = 'starting'
    self._folder = pathlib.Path(tempfile.mkdtemp(prefix='vidcap_serve_'))
    self._batcher = Batcher(programs, self.metrics.batches.observe)
    self.metrics.waiting.set_function(lambda: len(self._batcher))
    self.metrics.ready.set_function(lambda: self.state == 'ready')
    self._workers = self._make_workers() if reads_files else None
    self._in_progress = 0
    self._mean_seconds = 1.0  # of a request, lately

  def _make_workers(self) -> WorkerPool:
    replaced, compiled = self.metrics.replaced, self.metrics.compiled.labels('worker')
    events = Events(lambda reason: replaced.labels(reason).inc(), compiled.inc)
    return WorkerPool(self.source, self.capacity.workers, self.capacity.worker_bytes, events)

  def start(self, report: Callable[[str], None] = lambda text: None) -> None:
    """Starts the workers and compiles everything, unless ``close`` is called meanwhile.

    Args:
      report: called with a line of what takes the time.

    Raises:
      UserError: a worker can't start.
    """
    runs = self.programs.first_runs(warm_up.example_video(self.source.provenance))
    report(
      f'compiling {len(runs)} programs; /healthz and requests are answered with 503 until "ready"'
    )
    if self._workers:
      self._workers.start()
    for run in progress(runs, len(runs), 'vidcap serve: compiling', unit='programs'):
      if self.state == 'stopping':
        return
      run()
    count_compilations(self.metrics.compiled.labels('server').inc)
    self._batcher.start()
    if self.state == 'starting':
      self.state = 'ready'

  def close(self) -> None:
    """Ends the workers and the queue, and removes files."""
    self.state = 'stopping'
    if self._workers:
      self._workers.close()
    self._batcher.close()
    shutil.rmtree(self._folder, ignore_errors=True)

  @contextlib.contextmanager
  def admitted(self) -> Iterator[None]:
    """A place among the requests that are worked on.

    Raises:
      ApiError: there is none, or the server starts or stops.
    """
    if self.state != 'ready':
      raise ApiError(self.state, f'the server is {self.state}', {'Retry-After': '5'})
    if self._in_progress >= self.capacity.requests:
      seconds = min(_MOST_RETRY_SECONDS, math.ceil(self._mean_seconds))
      raise ApiError(
        'busy',
        f'{self._in_progress} requests are being worked on already; try again in {seconds} s',
        {'Retry-After': str(max(1, seconds))},
      )
    begin = time.monotonic()
    self._in_progress += 1
    self.metrics.in_progress.inc()
    try:
      yield
    finally:
      self._in_progress -= 1
      self.metrics.in_progress.dec()
      self._mean_seconds += 0.1 * (time.monotonic() - begin - self._mean_seconds)

  async def answer(self, form: uploads.Form) -> tuple[int, dict[str, Any]]:
    """The status and the body of the answer to a request for captions.

    Raises:
      ApiError: unsuitable fields or parts.
    """
    begin = time.monotonic()
    wanted = fields.parse(form.texts, self.programs)
    if form.files and not self.reads_files:
      streams = ', '.join(f'features.{s.name}' for s in self.source.provenance.streams)
      raise ApiError('no_files', f'this model reads features, not files; send {streams}')
    with tempfile.TemporaryDirectory(dir=self._folder) as folder:
      if form.features:
        first = next(iter(form.features.values()))
        outcomes = [
          await self._outcome(self._features(form.features, wanted), first, wanted.attention)
        ]
      else:
        tasks = [
          self._outcome(
            self._file(part, number, wanted, pathlib.Path(folder)), part, wanted.attention
          )
          for number, part in enumerate(form.files)
        ]
        outcomes = await _all(tasks)
    results = [outcome.to_dict() for outcome in outcomes]
    errors = [outcome.error for outcome in outcomes]
    if errors[0] is not None and all(errors):
      return errors[0].status, {'error': errors[0].to_dict(), 'results': results}
    return 200, {'results': results, 'seconds': round(time.monotonic() - begin, 4)}

  async def _outcome(
    self, work: Awaitable[tuple[Decoded, Captioned]], part: UploadFile, with_attention: bool
  ) -> Outcome:
    """The result of a file, or its error."""
    video_id = uploads.video_id(uploads.file_name(part))
    try:
      decoded, captioned = await work
    except ApiError as error:
      self.metrics.files.labels(error.code).inc()
      return Outcome(video_id, error=error)
    except Exception:
      _LOG.exception('captioning %r failed', video_id)
      self.metrics.files.labels('internal').inc()
      return Outcome(video_id, error=ApiError('internal', 'an error in the server'))
    self.metrics.files.labels('captioned').inc()
    return Outcome(video_id, decoded, captioned, None, with_attention)

  async def _file(
    self, part: UploadFile, number: int, wanted: Wanted, folder: pathlib.Path
  ) -> tuple[Decoded, Captioned]:
    """Reads and captions a clip or picture."""
    assert self._workers
    name = uploads.file_name(part)
    path = await uploads.save(part, name, folder, number)
    with self.metrics.decoding.time():
      job = Job(path, name, wanted.attention)
      decoded = await asyncio.wrap_future(self._workers.submit(job))
    video = Video(uploads.video_id(name), (), decoded.features)
    return decoded, await self._captions(video, number, wanted)

  async def _features(
    self, parts: Mapping[str, UploadFile], wanted: Wanted
  ) -> tuple[Decoded, Captioned]:
    """Captions a video of which features are given."""
    decoded = await asyncio.to_thread(self._read_features, parts)
    video = Video('features', (), decoded.features)
    return decoded, await self._captions(video, 0, wanted)

  def _read_features(self, parts: Mapping[str, UploadFile]) -> Decoded:
    """Arrays by stream, as the data set of the training would store them."""
    arrays = {
      name: read_npy(f'{uploads.FEATURES}{name[:60]}', part.file) for name, part in parts.items()
    }
    notes: list[str] = []
    try:
      given = feature_inputs.from_arrays(self.source.provenance, 'features', arrays)
      video = given.load(notes)
    except UserError as error:
      message = str(error).replace('features: features: ', 'features: ')  # the id, and the kind
      raise ApiError('bad_features', message) from None
    return Decoded(video.features, tuple(notes))

  async def _captions(self, video: Video, number: int, wanted: Wanted) -> Captioned:
    """Waits in the queue until a video is captioned."""
    waiting = Waiting(video, wanted.decoding, wanted.seed + number, wanted.attention)
    self._batcher.submit([waiting])
    try:
      async with asyncio.timeout(self.limits.captioning_seconds):
        return await asyncio.wrap_future(waiting.future)
    except TimeoutError:
      raise ApiError(
        'captioning_timeout',
        f'no caption within {self.limits.captioning_seconds:g} seconds; the server is overloaded',
      ) from None
