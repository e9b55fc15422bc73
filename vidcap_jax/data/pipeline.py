"""Reads batches for training and evaluation in Grain's threads.

``order.py`` decides which videos and captions are in which batch, ``batch.py`` what a batch looks
like. Each host reads its contiguous block of every batch, starting at any step.
"""

import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from vidcap_jax.data.batch import check_sizes, read_row, stack
from vidcap_jax.data.order import EvalOrder, TrainOrder
from vidcap_jax.data.records import Video, VideoSource
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.distributed.mesh import check_batch_size
from vidcap_jax.errors import DataError

T = TypeVar('T')


@dataclasses.dataclass(frozen=True)
class BatchShape:
  """What the rows of a batch hold.

  Attributes:
    streams: the streams to read, those that the model needs.
    sizes: by stream name, see ``batch.default_sizes``. Longer videos are subsampled, and only the
      first regions are taken.
    length: L, words of a caption with its EOS.
    blocks: frames to a unit of the clock that streams share, see ``batch.default_sizes``.
  """

  streams: Sequence[Stream]
  sizes: Mapping[str, Sequence[int]]
  length: int
  blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Reading:
  """Who reads which rows, and how far ahead; what a row holds does not depend on it.

  Attributes:
    host, hosts: this process reads block `host` of `hosts` of every batch.
    threads: number of threads that read batches ahead; 0 reads each batch when it is asked for,
      which is fastest for a few videos in memory.
    prefetch: number of batches that are read ahead.
    workers: number of processes that read, each with these threads; 0 reads in this process.
  """

  host: int = 0
  hosts: int = 1
  threads: int = 2
  prefetch: int = 4
  workers: int = 0


def train_batches(
  source: VideoSource,
  vocabulary: Vocabulary,
  order: TrainOrder,
  shape: BatchShape,
  steps: range,
  reading: Reading = Reading(),
) -> Generator[tuple[int, dict], None, None]:
  """Training batches of consecutive steps, counted from 0 over all epochs.

  Args:
    source: a split, random access to ``records.Video``.
    vocabulary: encodes the captions.
    order: which video and captions stand where; made for this split.
    shape: what a row holds.
    steps: any steps: a step's batch does not depend on where reading began.
    reading: this process's part of the rows, and how it reads.

  Yields:
    The step and the batch of B / hosts rows.

  Raises:
    DataError: now for arguments that don't fit together, later for a record that doesn't fit.
  """
  if order.videos != len(source):
    raise DataError(
      f'the order was made for {order.videos} videos, the split holds {len(source)}; '
      'make it from the caption counts of this split'
    )
  rows = _Rows(order, order.batch_size, steps.start, steps.stop, reading.host, reading.hosts)
  return _batches(rows, source, vocabulary, shape, reading)


def eval_batches(
  source: VideoSource,
  vocabulary: Vocabulary,
  shape: BatchShape,
  batch_size: int,
  captions_per_video: int = 1,
  reading: Reading = Reading(),
) -> Generator[tuple[int, dict], None, None]:
  """Yields batches with every video of a source once, in order, with its first S captions.

  The last batch is filled up with padding rows, so all hosts take equally many steps. `source` is
  a split or any sequence of ``records.Video``, with or without captions. `batch_size` is that of
  all hosts together; the rest is as in ``train_batches``.
  """
  order = EvalOrder(len(source), batch_size, captions_per_video)
  rows = _Rows(order, batch_size, 0, order.steps, reading.host, reading.hosts)
  return _batches(rows, source, vocabulary, shape, reading)


def read_texts(source: VideoSource, threads: int = 2) -> Iterator[Video]:
  """Yields every video of a source in order, without features: ids, captions and categories.

  Training counts the captions, and evaluation takes its references from them. Whole records are
  read, by Grain's threads: about half a second for 1,000 records of 112 KiB.
  """
  return read_each(source, _without_features, threads)


def _without_features(video: Video) -> Video:
  return dataclasses.replace(video, features={})


def read_presence(source: VideoSource, threads: int = 2) -> Iterator[frozenset[str]]:
  """Yields the names of the streams that each video of a source has; as slow as ``read_texts``."""
  return read_each(source, _present_streams, threads)


def _present_streams(video: Video) -> frozenset[str]:
  return frozenset(name for name, array in video.features.items() if len(array))


def read_each(source: VideoSource, each: Callable[[Video], T], threads: int = 2) -> Iterator[T]:
  """Yields ``each(video)`` for every video of a source, in order, by Grain's threads."""
  if not len(source):
    return
  import grain

  reading = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=32)
  iterator = iter(grain.MapDataset.source(source).map(each).to_iter_dataset(reading))
  try:
    yield from iterator
  finally:
    iterator.close()


@dataclasses.dataclass(frozen=True)
class _Rows:
  """The rows that one host reads, batch after batch, as a random-access source for Grain."""

  order: TrainOrder | EvalOrder
  batch_size: int
  start_step: int
  stop_step: int
  host: int
  hosts: int

  def __post_init__(self):
    check_batch_size(self.batch_size, self.hosts)
    if not 0 <= self.host < self.hosts:
      raise DataError(f'host {self.host} of {self.hosts}: hosts are counted from 0')
    if not 0 <= self.start_step <= self.stop_step:
      raise DataError(f'steps {self.start_step} to {self.stop_step}: not a range of steps')

  @property
  def block(self) -> int:
    """Rows of a batch that this host reads."""
    return self.batch_size // self.hosts

  def __len__(self) -> int:
    return (self.stop_step - self.start_step) * self.block

  def __getitem__(self, index: int) -> tuple[int, np.ndarray | None]:
    step, r = divmod(int(index), self.block)
    return self.order.row(self.start_step + step, self.host * self.block + r)


def _batches(
  rows: _Rows, source: VideoSource, vocabulary: Vocabulary, shape: BatchShape, reading: Reading
):
  """Reads and subsamples each row, and stacks the rows to batches."""
  check_sizes(shape.streams, shape.sizes)
  sizes = {stream.name: tuple(shape.sizes[stream.name]) for stream in shape.streams}
  if shape.length < 2:
    raise DataError(
      f'captions of {shape.length} tokens hold no word beside their EOS; use 2 or more'
    )
  form = (tuple(shape.streams), sizes, rows.order.captions_per_video, shape.length)
  read = functools.partial(read_row, source, vocabulary, *form, shape.blocks)
  stacked = functools.partial(stack, *form)
  return _iterate(rows, read, stacked, reading)


def _iterate(rows: _Rows, read, stacked, reading: Reading):
  if not len(rows):
    return
  if not (reading.threads or reading.workers):
    for first in range(0, len(rows), rows.block):
      batch = [read(rows[row]) for row in range(first, first + rows.block)]
      yield rows.start_step + first // rows.block, stacked(batch)
    return
  import grain  # imports jax, which commands that only read data don't need

  buffer = max(reading.prefetch, reading.threads)
  options = grain.ReadOptions(num_threads=reading.threads, prefetch_buffer_size=buffer)
  # Rows are stacked before batches are read ahead: a thread makes whole batches, so that neither
  # threads nor workers can change what a batch holds.
  dataset = grain.MapDataset.source(rows).map(read).batch(rows.block, batch_fn=stacked)
  dataset = dataset.to_iter_dataset(options)
  if reading.workers:
    per_worker = max(1, reading.prefetch // reading.workers)
    dataset = dataset.mp_prefetch(
      grain.MultiprocessingOptions(num_workers=reading.workers, per_worker_buffer_size=per_worker),
      functools.partial(_end_with, os.getpid()),
    )
  iterator = iter(dataset)
  try:
    yield from enumerate(iterator, rows.start_step)
  finally:
    iterator.close()


def _end_with(parent: int, *_) -> None:
  """Makes a worker process exit soon after its parent process, which may have been killed."""

  def watch():
    while os.getppid() == parent:
      time.sleep(1)
    os._exit(1)

  threading.Thread(target=watch, daemon=True).start()
