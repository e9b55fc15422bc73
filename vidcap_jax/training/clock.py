"""Speed of a training loop: captions per second, time spent waiting for input, time left."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vidcap_jax.progress import duration
from vidcap_jax.training.ledger import Ledger


class Clock:
  """Captions per second and share of time spent waiting for input since the last ``read``, and the
  time left.

  The time is that of the steps and of waiting for their input. What a run compiles, validates and
  saves meanwhile is not part of it.

  Attributes:
    total: steps of the stage.
    captions: trained on since the last ``read``; the loop adds to it.
  """

  def __init__(self, start: int, total: int, ledger: Ledger):
    self.total = total
    self.captions = 0
    self._ledger = ledger
    self._step_seconds: float | None = None
    self.restart(start)

  def watch(self, batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches and measures how long each was waited for."""
    iterator = iter(batches)
    while True:
      with self._ledger.measure('waiting_for_input'):
        try:
          item = next(iterator)
        except StopIteration:
          return
      yield item

  def restart(self, step: int) -> None:
    """Starts anew at ``step``: the time until now is not counted."""
    self._done = step
    self.captions, self._before = 0, self._ledger.read()

  def read(self, step: int) -> dict[str, float]:
    """captions_per_second, input_wait and seconds since the last reading, at ``step`` steps."""
    now = self._ledger.read()
    waited = now['waiting_for_input'] - self._before['waiting_for_input']
    seconds = max(1e-9, waited + now['stepping'] - self._before['stepping'])
    if steps := step - self._done:
      self._step_seconds = seconds / steps
    values = {
      'captions_per_second': self.captions / seconds,
      'input_wait': waited / seconds,
      'seconds': seconds,
    }
    self._done, self.captions, self._before = step, 0, now
    return values

  def line(self, step: int, record: Mapping[str, float]) -> str:
    """The progress line of a record."""
    left = (self.total - step) * (self._step_seconds or 0.0)
    earned = ''
    if 'baseline' in record:
      earned = f'reward {record["reward"]:.3f} (baseline {record["baseline"]:.3f}) '
    return (
      f'step {step}/{self.total} epoch {record["epoch"]:.2f} '
      f'loss {record["loss"]:.3f} (mean {record["smooth_loss"]:.3f}) '
      f'{earned}lr {record["learning_rate"]:.2g} | '
      f'{record["captions_per_second"]:.0f} captions/s, '
      f'input wait {100 * record["input_wait"]:.0f} %, ETA {duration(left)}'
    )
