"""Can the host feed the device? Records a second, and how long a step waits, by ``data.cache``.

  python -m benchmarks.input [--data=DIR] [--step_ms=100] [--json=FILE]

Without --data a set of random features is written first: --videos of --frames x --channels in
float16. For each mode batches are read as fast as they come, then with --step_ms between them in
place of a step; the share of waiting is what training reports as input wait, and what it takes to
hand a batch to the devices. Beside it stands what the host must deliver when a step takes a tenth
of the time.
"""

import argparse
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

import jax
import numpy as np
from absl import flags

import benchmarks
from benchmarks import made
from vidcap_jax.data import cache, pipeline
from vidcap_jax.data.batch import default_sizes
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.distributed.mesh import make_mesh, to_devices
from vidcap_jax.errors import UserError

FASTER = 10  # than today's step: an accelerator's
MOST_WAIT = 0.05  # of a step, or the device is kept waiting


def write_data(folder: pathlib.Path, videos: int, frames: int, channels: int) -> str:
  """A data set of random features, one caption a video; returns its folder."""
  array = np.random.default_rng(0).normal(size=(frames, channels)).astype(np.float16)
  return made.data_set(
    folder, (('train', [f'video number {i % 9}'], np.roll(array, i)) for i in range(videos))
  )


def batches(data: str, mode: str, batch_size: int, threads: int, workers: int) -> Iterator[Mapping]:
  """Batches on the devices, epoch after epoch, as training gets them."""
  manifest, mesh = read_manifest(data), make_mesh()
  if manifest.vocabulary is None or 'train' not in manifest.splits:
    raise UserError(f'{data}: no split train with a vocabulary to read batches of')
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  source = open_split(data, 'train')
  texts = list(pipeline.read_texts(source, threads))
  counts = np.array([len(video.captions) for video in texts])
  order = TrainOrder(counts, batch_size, 1, seed=0)
  sizes = default_sizes(manifest.streams)
  kept = cache.keep(mode, source, texts, manifest.streams, sizes, {}, mesh, threads)
  shape = pipeline.BatchShape(kept.streams, sizes, vocabulary.max_words + 1)
  reading = pipeline.Reading(threads=threads, workers=workers if mode == 'none' else 0)
  steps = range(sys.maxsize // batch_size)
  read = pipeline.train_batches(kept.source, vocabulary, order, shape, steps, reading)
  try:
    for _, batch in read:
      yield kept.fill(to_devices(batch, mesh))
  finally:
    read.close()


def measure(
  data: str, mode: str, batch_size: int, steps: int, step_ms: float, threads: int, workers: int
) -> list[benchmarks.Row]:
  """Records a second as fast as they come, share of waiting, and what a faster step would need."""
  began = time.perf_counter()
  coming = batches(data, mode, batch_size, threads, workers)
  batch = jax.block_until_ready(next(coming))  # loads, compiles
  loaded = time.perf_counter() - began

  began = time.perf_counter()
  for _ in range(steps):
    jax.block_until_ready(next(coming))
  rate = steps * batch_size / (time.perf_counter() - began)

  waited = 0.0
  for _ in range(steps):
    time.sleep(step_ms / 1000)
    asked = time.perf_counter()
    next(coming)  # not until it is on the devices: that goes on beside the step before
    waited += time.perf_counter() - asked
  coming.close()
  share = waited / (waited + steps * step_ms / 1000)

  from_host = {k: v for k, v in batch.items() if mode != 'device' or k not in _FEATURES}
  size = sum(array.nbytes for array in jax.tree.leaves(from_host))
  faster = batch_size / (step_ms / 1000 / FASTER)  # records a second
  return [
    benchmarks.Row(f'{mode}: first batch after', loaded, 's'),
    benchmarks.Row(f'{mode}: records read', rate, 'a second'),
    benchmarks.Row(f'{mode}: input wait', share, goal=MOST_WAIT, met=share <= MOST_WAIT),
    benchmarks.Row(f'{mode}: from the host at {FASTER}x', size * faster / batch_size / 1e6, 'MB/s'),
  ]


_FEATURES = ('features', 'masks')


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if a step is kept waiting."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.input',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--data', metavar='DIR', help='data set (default: random features)')
  add('--videos', type=int, default=1000, metavar='N', help='default: %(default)s')
  add('--frames', type=int, default=28, metavar='T', help='default: %(default)s')
  add('--channels', type=int, default=2048, metavar='D', help='default: %(default)s')
  add('--batch_size', type=int, default=64, metavar='B', help='default: %(default)s')
  add('--steps', type=int, default=50, metavar='N', help='measured (default: %(default)s)')
  add('--step_ms', type=float, default=100.0, help='time of a step (default: %(default)s)')
  add('--threads', type=int, default=2, help='that read (default: %(default)s)')
  add('--workers', type=int, default=0, help='processes that read (default: %(default)s)')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  flags.FLAGS.mark_as_parsed()  # Grain has some, which its processes look at
  with tempfile.TemporaryDirectory() as folder:
    try:
      data = args.data or write_data(
        pathlib.Path(folder) / 'set', args.videos, args.frames, args.channels
      )
      rows = []
      for mode in cache.MODES:
        reading = args.threads, args.workers
        rows += measure(data, mode, args.batch_size, args.steps, args.step_ms, *reading)
    except UserError as error:
      print(f'error: {error}', file=sys.stderr)
      return 1
  rows.append(
    benchmarks.Row(
      f'records to be read at {FASTER}x', FASTER * args.batch_size / args.step_ms * 1000, 'a second'
    )
  )
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
