"""Videos that wait to be captioned, and the thread that captions them in batches.

While the devices are busy, videos gather; then those that are decoded like the oldest one make the
next batch. So a lone request doesn't wait, and many requests share batches.
"""

import collections
import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from vidcap_jax.data.records import Video
from vidcap_jax.serving.programs import Captioned, Decoding, Programs

CLOSE_SECONDS = 60.0  # for the batch that runs when the server stops


@dataclasses.dataclass(frozen=True)
class Waiting:
  """A video in the queue.

  Attributes:
    video: with its features.
    decoding: how it is decoded.
    row: the number that its samples depend on.
    attention: whether its attention weights are wanted.
    future: of its result.
  """

  video: Video
  decoding: Decoding
  row: int = 0
  attention: bool = False
  future: 'Future[Captioned]' = dataclasses.field(default_factory=Future)

  @property
  def key(self) -> tuple:
    """Videos with equal keys can be in one batch."""
    return self.decoding.program, self.decoding.values


class Batcher:
  """Captions videos in one thread, so that devices run one program at a time.

  Args:
    programs: that caption.
    observe: called with the number of videos of each batch.
  """

  def __init__(self, programs: Programs, observe: Callable[[int], None]):
    self._programs, self._observe = programs, observe
    self._queue: collections.deque[Waiting] = collections.deque()
    self._changed = threading.Condition()
    self._closing = False
    self._thread = threading.Thread(target=self._run, name='captions', daemon=True)

  def start(self) -> None:
    """Compiles nothing: ``Programs.first_runs`` come before."""
    self._thread.start()

  def __len__(self) -> int:
    return len(self._queue)

  def submit(self, waiting: Sequence[Waiting]) -> None:
    """Adds videos at the end of the queue."""
    with self._changed:
      self._queue.extend(waiting)
      self._changed.notify()

  def close(self) -> None:
    """Captions what is in the queue, and ends the thread."""
    with self._changed:
      self._closing = True
      self._changed.notify()
    if self._thread.is_alive():
      self._thread.join(CLOSE_SECONDS)

  def _run(self) -> None:
    while batch := self._next():
      self._caption(batch)

  def _next(self) -> list[Waiting]:
    """The next batch; empty once the queue is closed and empty."""
    with self._changed:
      while True:
        self._changed.wait_for(lambda: self._queue or self._closing)
        batch = self._take()
        if batch or (self._closing and not self._queue):
          return batch

  def _take(self) -> list[Waiting]:
    """Takes a batch out of the queue; empty if all in the queue had been cancelled."""
    batch: list[Waiting] = []
    others: list[Waiting] = []
    while self._queue and len(batch) < self._programs.batch_sizes[-1]:
      each = self._queue.popleft()
      if batch and each.key != batch[0].key:
        others.append(each)
      elif each.future.set_running_or_notify_cancel():
        batch.append(each)
    self._queue.extendleft(reversed(others))
    return batch

  def _caption(self, batch: Sequence[Waiting]) -> None:
    """Sets the results of a batch; if it fails, each video is tried alone."""
    try:
      results = self._captioned(batch)
    except Exception as error:
      if len(batch) == 1:
        batch[0].future.set_exception(error)
      else:
        for each in batch:
          self._caption([each])
      return
    self._observe(len(batch))
    for each, result in zip(batch, results, strict=True):
      each.future.set_result(result)

  def _captioned(self, batch: Sequence[Waiting]) -> list[Captioned]:
    how = dataclasses.replace(
      batch[0].decoding, captions=max(each.decoding.captions for each in batch)
    )
    videos, rows = [each.video for each in batch], [each.row for each in batch]
    decoded = self._programs.run(videos, rows, how)
    asked = [i for i, each in enumerate(batch) if each.attention]
    explained = self._programs.explain(
      [videos[i] for i in asked], [decoded[i][0].caption for i in asked]
    )
    weights = dict(zip(asked, explained, strict=True))
    return [
      Captioned(decoded[i][: each.decoding.captions], weights.get(i, {}))
      for i, each in enumerate(batch)
    ]
