"""Whether the host keeps up with the device: records per second and input wait, by ``data.cache``.

  python -m benchmarks.input_pipeline [--data=DIR] [--step_ms=100] [--json=FILE]

Without --data a data set of random features is written first: --videos of --frames x --channels in
float16. In each mode batches are first read without pause, then with --step_ms between them in
place of a training step; the share of time spent waiting is the input wait that training reports,
plus the transfer to the devices. Further rows show what the host has to deliver when a step takes a
tenth of the time.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
from absl import flags

import benchmarks
from benchmarks import datasets
from vidcap_jax import command_errors
from vidcap_jax.data import cache, pipeline
from vidcap_jax.data.batch import default_sizes
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.distributed.mesh import make_mesh, to_devices
from vidcap_jax.errors import UserError

SPEEDUP = 10  # of an accelerator's step over --step_ms
MAX_WAIT = 0.05  # share of a step


def write_data(folder: pathlib.Path, videos: int, frames: int, channels: int) -> str:
  """Writes a data set of random features, one caption per video; returns its folder."""
  array = np.random.default_rng(0).normal(size=(frames, channels)).astype(np.float16)
  return datasets.build_dataset(
    folder, (('train', [f'video number {i % 9}'], np.roll(array, i)) for i in range(videos))
  )


@dataclasses.dataclass(frozen=True)
class Settings:
  """What is measured: batches of ``batch_size`` videos, ``steps`` of them for each rate.

  Attributes:
    batch_size: videos of a batch.
    steps: number of batches.
    step_ms: milliseconds of a training step.
    threads: that read.
    workers: processes that read.
  """

  batch_size: int
  steps: int
  step_ms: float
  threads: int
  workers: int


def batches(data: str, mode: str, settings: Settings) -> Iterator[Mapping]:
  """Endless batches on the devices, as training gets them."""
  manifest, mesh, threads = read_manifest(data), make_mesh(), settings.threads
  if manifest.vocabulary is None or 'train' not in manifest.splits:
    raise UserError(f'{data}: needs a split train and a vocabulary')
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  source = open_split(data, 'train')
  texts = list(pipeline.read_texts(source, threads))
  counts = np.array([len(video.captions) for video in texts])
  order = TrainOrder(counts, settings.batch_size, 1, seed=0)
  sizes = default_sizes(manifest.streams)
  cached = cache.load_features(mode, source, texts, manifest.streams, sizes, {}, mesh, threads)
  shape = pipeline.BatchShape(cached.streams, sizes, vocabulary.max_words + 1)
  workers = settings.workers if mode == 'none' else 0
  reading = pipeline.Reading(threads=threads, workers=workers)
  steps = range(sys.maxsize // settings.batch_size)
  host_batches = pipeline.train_batches(cached.source, vocabulary, order, shape, steps, reading)
  try:
    for _, batch in host_batches:
      yield cached.fill(to_devices(batch, mesh))
  finally:
    host_batches.close()


def measure(data: str, mode: str, settings: Settings) -> list[benchmarks.Row]:
  """Records per second, share of input wait, and the rate that a faster step would need."""
  start = time.perf_counter()
  iterator = batches(data, mode, settings)
  batch = jax.block_until_ready(next(iterator))  # loads, compiles
  first_batch = time.perf_counter() - start

  start = time.perf_counter()
  for _ in range(settings.steps):
    jax.block_until_ready(next(iterator))
  rate = settings.steps * settings.batch_size / (time.perf_counter() - start)

  waited = 0.0
  step_seconds = settings.step_ms / 1000
  for _ in range(settings.steps):
    time.sleep(step_seconds)
    wait_start = time.perf_counter()
    next(iterator)  # the transfer to the devices overlaps the step, so it isn't waited for
    waited += time.perf_counter() - wait_start
  iterator.close()
  share = waited / (waited + settings.steps * step_seconds)

  from_host = {k: v for k, v in batch.items() if mode != 'device' or k not in _FEATURES}
  nbytes = sum(array.nbytes for array in jax.tree.leaves(from_host))  # of a batch
  return [
    benchmarks.Row(f'{mode}: first batch after', first_batch, 's'),
    benchmarks.Row(f'{mode}: records read', rate, 'per second'),
    benchmarks.Row(f'{mode}: input wait', share, goal=MAX_WAIT, met=share <= MAX_WAIT),
    benchmarks.Row(
      f'{mode}: from the host at {SPEEDUP}x', nbytes * SPEEDUP / step_seconds / 1e6, 'MB/s'
    ),
  ]


_FEATURES = ('features', 'masks')


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if a step waits for its input too long."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.input_pipeline',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--data', metavar='DIR', help='data set (default: random features)')
  add('--videos', type=int, default=1000, metavar='N', help='default: %(default)s')
  add('--frames', type=int, default=28, metavar='T', help='default: %(default)s')
  add('--channels', type=int, default=2048, metavar='D', help='default: %(default)s')
  add('--batch_size', type=int, default=64, metavar='B', help='default: %(default)s')
  add(
    '--steps',
    type=int,
    default=50,
    metavar='N',
    help='number of batches to measure (default: %(default)s)',
  )
  add('--step_ms', type=float, default=100.0, help='duration of a step (default: %(default)s)')
  add('--threads', type=int, default=2, help='threads that read (default: %(default)s)')
  add('--workers', type=int, default=0, help='processes that read (default: %(default)s)')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  settings = Settings(args.batch_size, args.steps, args.step_ms, args.threads, args.workers)
  flags.FLAGS.mark_as_parsed()  # Grain's worker processes read its flags
  with tempfile.TemporaryDirectory() as folder:
    data = args.data or write_data(
      pathlib.Path(folder) / 'set', args.videos, args.frames, args.channels
    )
    rows = []
    for mode in cache.MODES:
      rows += measure(data, mode, settings)
  rows.append(
    benchmarks.Row(
      f'records needed at {SPEEDUP}x', SPEEDUP * args.batch_size / args.step_ms * 1000, 'per second'
    )
  )
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
