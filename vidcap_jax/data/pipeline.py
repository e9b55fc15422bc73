"""Batches for training and evaluation, read, fitted and stacked in Grain's threads.

Which row of which batch holds what is decided in ``order.py``, what a batch looks like in
``batch.py``. A host reads its contiguous block of every batch, from any step on.
"""

import dataclasses
import functools
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import MappingProxyType
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


def train_batches(
  source: VideoSource,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  order: TrainOrder,
  *,
  sizes: Mapping[str, Sequence[int]],
  length: int,
  start_step: int,
  stop_step: int,
  blocks: Mapping[str, int] = MappingProxyType({}),
  host: int = 0,
  hosts: int = 1,
  threads: int = 2,
  prefetch: int = 4,
  workers: int = 0,
) -> Generator[tuple[int, dict], None, None]:
  """Training batches of the steps start_step <= step < stop_step, counted from 0 over all epochs.

  Args:
    source: a split, random access to ``records.Video``.
    vocabulary: encodes the captions.
    streams: those to read; the model needs no others.
    order: which video and captions stand where; made for this split.
    sizes: by stream name, see ``default_sizes``. Longer videos are subsampled, of more regions
      the first are kept.
    length: L, words of a caption with its EOS.
    start_step, stop_step: any steps: a step's batch does not depend on where reading began.
    blocks: frames to a unit of the clock that streams share, see ``default_sizes``.
    host, hosts: this process reads block `host` of `hosts` of every batch.
    threads: that read batches ahead; the batches do not depend on it.
    prefetch: batches held ready.
    workers: processes to read with instead of this one, each with these threads; 0 reads here.

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
  rows = _Rows(order, order.batch_size, start_step, stop_step, host, hosts)
  options = {'threads': threads, 'prefetch': prefetch, 'workers': workers}
  return _batches(rows, source, vocabulary, streams, sizes, order, length, blocks, options)


def eval_batches(
  source: VideoSource,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  *,
  sizes: Mapping[str, Sequence[int]],
  length: int,
  batch_size: int,
  captions_per_video: int = 1,
  blocks: Mapping[str, int] = MappingProxyType({}),
  host: int = 0,
  hosts: int = 1,
  threads: int = 2,
  prefetch: int = 4,
) -> Generator[tuple[int, dict], None, None]:
  """Batches that visit every video of a source once, in order, with its first S captions.

  The last batch is filled up with padding rows, so all hosts take equally many steps. `source` is
  a split or any sequence of ``records.Video``, with or without captions. `batch_size` is that of
  all hosts together; the rest is as in ``train_batches``.
  """
  order = EvalOrder(len(source), batch_size, captions_per_video)
  rows = _Rows(order, batch_size, 0, order.steps, host, hosts)
  options = {'threads': threads, 'prefetch': prefetch, 'workers': 0}
  return _batches(rows, source, vocabulary, streams, sizes, order, length, blocks, options)


def read_texts(source: VideoSource, threads: int = 2) -> Iterator[Video]:
  """Every video of a source in order, without its features: ids, captions and categories.

  Training takes the number of captions of each video from here, evaluation its references. Whole
  records are read, by Grain's threads: about half a second for 1,000 records of 112 KiB.
  """
  return read_each(source, _without_features, threads)


def _without_features(video: Video) -> Video:
  return dataclasses.replace(video, features={})


def read_presence(source: VideoSource, threads: int = 2) -> Iterator[frozenset[str]]:
  """Which streams each video of a source has, in order; as costly as ``read_texts``."""
  return read_each(source, _streams_there, threads)


def _streams_there(video: Video) -> frozenset[str]:
  return frozenset(name for name, array in video.features.items() if len(array))


def read_each(source: VideoSource, each: Callable[[Video], T], threads: int = 2) -> Iterator[T]:
  """What a function makes of every video of a source, in order, by Grain's threads."""
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


def _batches(rows, source, vocabulary, streams, sizes, order, length, blocks, options):
  """The one path from rows to batches: read and fit each row, stack a batch of them."""
  check_sizes(streams, sizes)
  sizes = {stream.name: tuple(sizes[stream.name]) for stream in streams}
  if length < 2:
    raise DataError(f'captions of {length} tokens hold no word beside their EOS; use 2 or more')
  form = (tuple(streams), sizes, order.captions_per_video, length)
  read = functools.partial(read_row, source, vocabulary, *form, blocks)
  stacked = functools.partial(stack, *form)
  return _iterate(rows, read, stacked, **options)


def _iterate(rows: _Rows, read, stacked, threads: int, prefetch: int, workers: int):
  if not len(rows):
    return
  import grain  # pulls in jax, which commands that only look at data do without

  reading = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=max(prefetch, threads))
  # Stacked before reading ahead: so a thread makes a whole batch, and neither threads nor workers
  # can change what a batch holds.
  dataset = grain.MapDataset.source(rows).map(read).batch(rows.block, batch_fn=stacked)
  dataset = dataset.to_iter_dataset(reading)
  if workers:
    per_worker = max(1, prefetch // workers)
    dataset = dataset.mp_prefetch(
      grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=per_worker),
      functools.partial(_end_with, os.getpid()),
    )
  iterator = iter(dataset)
  try:
    yield from enumerate(iterator, rows.start_step)
  finally:
    iterator.close()


def _end_with(parent: int, *_) -> None:
  """Ends a worker process soon after the one that it reads for, which may have been killed."""

  def watch():
    while os.getppid() == parent:
      time.sleep(1)
    os._exit(1)

  threading.Thread(target=watch, daemon=True).start()
