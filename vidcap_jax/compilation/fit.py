"""The largest batch that fits a chip's memory, found by compiling."""

import dataclasses
from collections.abc import Callable

from vidcap_jax.compilation.jobs import Job
from vidcap_jax.compilation.report import Report

MOST = 2**16  # rows of a chip that are tried


@dataclasses.dataclass(frozen=True)
class LargestBatch:
  """The result of a search.

  Attributes:
    report: of the program with the largest batch that fits; of the smallest batch if none does.
    tried: rows of each chip -> MiB of its memory, None where it did not compile.
    more_may_fit: whether the search ended at ``MOST`` rows before a batch did not fit.
  """

  report: Report
  tried: dict[int, float | None]
  more_may_fit: bool = False


def largest_batch(job: Job, compile_job: Callable[[Job], Report]) -> LargestBatch:
  """Doubles the batch until it does not fit, then halves the gap, to a sixteenth of the batch.

  Memory grows with the batch, so that of two batches that fit the larger one is kept. A failure for
  another reason than memory ends the search with its report.

  Args:
    job: the program; its batch is where the search begins.
    compile_job: compiles a job.
  """
  unit = _unit(job)
  search = _Search(job, compile_job, unit)
  fits, exceeds = 0, 0  # rows of a chip, in units
  size = min(max(1, round(job.rows / job.data_axis / unit)), MOST // unit)
  while not exceeds and size * unit <= MOST:
    if search.fits(size):
      fits, size = size, 2 * size
    elif search.stopped:
      return search.result(size)
    else:
      exceeds = size
  if not exceeds:
    return dataclasses.replace(search.result(fits), more_may_fit=True)
  while exceeds - fits > max(1, fits // 16):
    size = _next(search, fits, exceeds)
    if search.fits(size):
      fits = size
    elif search.stopped:
      return search.result(size)
    else:
      exceeds = size
  return search.result(fits or 1)


def _unit(job: Job) -> int:
  """What the rows of a chip are a multiple of."""
  parts = job.config.objective.get('micro_batches', 1)
  return parts if job.trains else 1


class _Search:
  """Compiles batches and remembers their reports."""

  def __init__(self, job: Job, compile_job: Callable[[Job], Report], unit: int):
    self._job, self._compile_job, self._unit = job, compile_job, unit
    self.limit = job.topology.chip.memory
    self.reports: dict[int, Report] = {}
    self.stopped = False

  def fits(self, size: int) -> bool:
    """Whether so many units of rows fit; ``stopped`` if that can't be known."""
    job = self._job.with_rows(size * self._unit * self._job.data_axis)
    report = self.reports[size] = self._compile_job(job)
    self.stopped = bool(report.error) and not report.out_of_memory
    return report.fits(job.topology.chip)

  def memory(self, size: int) -> int | None:
    """Bytes of each chip, None if it did not compile."""
    found = self.reports.get(size)
    return found.memory.total if found and found.memory else None

  def result(self, size: int) -> LargestBatch:
    """The end of the search."""
    if size not in self.reports:
      self.fits(size)
    memory = {s * self._unit: self.memory(s) for s in sorted(self.reports)}
    tried = {rows: None if m is None else m / 2**20 for rows, m in memory.items()}
    return LargestBatch(self.reports[size], tried)


def _next(search: _Search, fits: int, exceeds: int) -> int:
  """The batch to try between one that fits and one that does not.

  Memory is nearly linear in the batch: where two sizes are known, the batch that would just fit is
  tried; but never the same one again, and the middle where nothing is known.
  """
  known = sorted((s, m) for s in search.reports if (m := search.memory(s)) is not None)
  middle = (fits + exceeds) // 2
  if len(known) < 2:
    return middle
  (a, memory_a), (b, memory_b) = known[-2:]
  if memory_b <= memory_a:
    return middle
  guess = a + int((search.limit - memory_a) * (b - a) / (memory_b - memory_a))
  margin = max(1, fits // 32)
  return min(max(guess, fits + margin), exceeds - margin) if exceeds - fits > 2 * margin else middle
