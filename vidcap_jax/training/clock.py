"""Speed of a training loop: captions per second, time spent waiting for input, time left."""

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vidcap_jax.progress import duration


class Clock:
  """Captions per second and share of time spent waiting for input since the last ``read``, and the
  time left.

  Attributes:
    total: steps of the stage.
    captions: trained on since the last ``read``; the loop adds to it.
  """

  def __init__(self, start: int, total: int):
    self.total = total
    self.captions = 0
    self._done = start
    self._step_seconds: float | None = None
    self._reset()

  def _reset(self) -> None:
    self.captions, self._waited, self._since = 0, 0.0, time.perf_counter()

  def watch(self, batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches and measures how long each was waited for."""
    iterator = iter(batches)
    while True:
      began = time.perf_counter()
      try:
        item = next(iterator)
      except StopIteration:
        return
      self._waited += time.perf_counter() - began
      yield item

  @contextlib.contextmanager
  def paused(self) -> Iterator[None]:
    """A context whose time is not counted: validation and saving."""
    began = time.perf_counter()
    yield
    self._since += time.perf_counter() - began

  def restart(self, step: int) -> None:
    """Starts anew at ``step``: the time of the first step, compilation included, is not counted."""
    self._done = step
    self._reset()

  def read(self, step: int) -> dict[str, float]:
    """captions_per_second, input_wait and seconds since the last reading, at ``step`` steps."""
    seconds = max(1e-9, time.perf_counter() - self._since)
    steps, self._done = step - self._done, step
    if steps:
      self._step_seconds = seconds / steps
    values = {
      'captions_per_second': self.captions / seconds,
      'input_wait': self._waited / seconds,
      'seconds': seconds,
    }
    self._reset()
    return values

  def line(self, step: int, record: Mapping[str, float]) -> str:
    """The progress line of a record."""
    left = (self.total - step) * (self._step_seconds or 0.0)
    earned = ''
    if 'baseline' in record:
      earned = f'reward {record["reward"]:.3f} (baseline {record["baseline"]:.3f}) '
    return (
      f'step {step}/{self.total} epoch {record["epoch"]:.2f} '
      f'loss {record["smooth_loss"]:.3f} {earned}lr {record["learning_rate"]:.2g} | '
      f'{record["captions_per_second"]:.0f} captions/s, '
      f'input wait {100 * record["input_wait"]:.0f} %, ETA {duration(left)}'
    )
