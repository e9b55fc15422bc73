"""Batches hold what the order says, and reading starts, stops and fails where it should."""

import itertools
import os
import pathlib
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.vidcap_jax.data.batches import (
  COUNTS,
  LENGTH,
  SIZES,
  STREAMS,
  VIDEOS,
  VOCABULARY,
  assert_same,
  check_padding_row,
  check_row,
  evaluation,
  join_hosts,
  leaves,
  training,
)
from vidcap_jax.data import records
from vidcap_jax.data.batch import empty_batch
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.pipeline import (
  BatchShape,
  Reading,
  eval_batches,
  read_texts,
  train_batches,
)
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Manifest, Split, write_manifest
from vidcap_jax.data.vocabulary import EOS, PAD
from vidcap_jax.errors import DataError


def test_rows_hold_what_the_order_says():
  order = TrainOrder(COUNTS, 4, 2, seed=5)
  batches = training(order)
  assert [step for step, _ in batches] == list(range(2 * order.steps_per_epoch))
  padding = 0
  for step, batch in batches:
    for r in range(4):
      video, captions = order.row(step, r)
      if video < 0:
        check_padding_row(batch, r)
        padding += 1
      else:
        assert batch['video_index'][r] == video
        check_row(batch, r, VIDEOS[video], captions[captions >= 0])
  assert padding


def test_an_epoch_of_batches_holds_every_caption_once():
  order = TrainOrder(COUNTS, 4, 2, seed=5)
  seen = [
    (int(video), int(caption))
    for _, batch in training(order, stop_step=order.steps_per_epoch)
    for video, captions in zip(batch['video_index'], batch['caption_index'], strict=True)
    for caption in captions
    if caption >= 0
  ]
  assert sorted(seen) == [(v, c) for v, count in enumerate(COUNTS) for c in range(count)]


def test_shapes_and_dtypes():
  (_, batch), *_ = training()
  shapes = {key: (value.shape, value.dtype.name) for key, value in leaves(batch['features'])}
  assert shapes == {
    'audio': ((4, 3), 'float16'),
    'image': ((4, 5, 4), 'float16'),
    'map': ((4, 3, 6, 5), 'float16'),
    'objects': ((4, 3, 4, 6), 'float16'),
  }
  for name, mask in batch['masks'].items():
    assert mask.shape == batch['features'][name].shape[:-1]
    assert mask.dtype == bool
  assert batch['captions'].shape == (4, 2, LENGTH)
  for key in ('captions', 'caption_index', 'video_index', 'category'):
    assert batch[key].dtype == np.int32
  empty = empty_batch(STREAMS, SIZES, 4, 2, LENGTH)
  for (key, x), (other, y) in zip(leaves(empty), leaves(batch), strict=True):
    if isinstance(x, np.ndarray):
      assert (key, x.shape, x.dtype) == (other, y.shape, y.dtype)


def test_resuming_anywhere_gives_the_same_batches():
  whole = training()
  for step in range(len(whole) + 1):
    assert_same(training(start_step=step), whole[step:])
  assert_same(training(start_step=1, stop_step=2), whole[1:2])
  # On another number of hosts, too.
  assert_same(join_hosts([training(start_step=3, host=h, hosts=2) for h in range(2)]), whole[3:])


@pytest.mark.parametrize(('threads', 'prefetch'), [(0, 1), (1, 1), (2, 8), (7, 3)])
def test_threads_change_nothing(threads, prefetch):
  assert_same(training(threads=threads, prefetch=prefetch), training())
  assert_same(evaluation(3, threads=threads, prefetch=prefetch), evaluation(3))


def test_worker_processes_change_nothing():
  assert_same(training(workers=1), training())


def test_workers_end_with_the_process_that_they_read_for(tmp_path):
  program = tmp_path / 'reads.py'
  program.write_text(READS_AND_IS_KILLED)
  environment = {**os.environ, 'PYTHONPATH': str(pathlib.Path(__file__).parents[3])}
  killed = subprocess.run(  # returns when the worker, which has its stdout too, is gone
    [sys.executable, str(program)], capture_output=True, text=True, env=environment, timeout=120
  )
  assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, '1 worker\n'), killed.stderr


READS_AND_IS_KILLED = """
import multiprocessing, os, signal
from absl import flags
from tests.vidcap_jax.data import batches
from vidcap_jax.data.pipeline import BatchShape, Reading, train_batches

if __name__ == '__main__':
  flags.FLAGS.mark_as_parsed()
  order = batches.TrainOrder(batches.COUNTS, 4, 2, seed=5)
  shape = BatchShape(batches.STREAMS, batches.SIZES, batches.LENGTH)
  of = (batches.VIDEOS, batches.VOCABULARY, order, shape)
  reading = train_batches(*of, range(10**6), Reading(workers=1))
  next(reading)
  print(len(multiprocessing.active_children()), 'worker', flush=True)
  os.kill(os.getpid(), signal.SIGKILL)
"""


def test_evaluation_takes_the_first_captions():
  ((_, batch),) = evaluation(8, captions_per_video=3)
  for r, video in enumerate(VIDEOS):
    check_row(batch, r, video, range(min(3, len(video.captions))))
  check_padding_row(batch, 7)


def test_no_videos_no_batches():
  assert evaluation(4, source=[]) == []


def test_only_the_asked_streams_are_read():
  image = STREAMS[1:2]
  stripped = [Video(v.video_id, v.captions, {'image': v.features['image']}) for v in VIDEOS]
  batches = training(source=stripped, streams=image, sizes={'image': (5,)})
  assert all(list(batch['features']) == list(batch['masks']) == ['image'] for _, batch in batches)


def test_captions_are_cut_and_end():
  for _, batch in training():
    for tokens in batch['captions'].reshape(-1, LENGTH):
      ends = (tokens == EOS).sum()
      assert ends == (tokens != PAD).any()
      assert (np.diff((tokens == PAD).astype(int)) >= 0).all()  # PAD only at the end


def write_data_set(directory):
  features = records.tfds_features(STREAMS)
  encoded = [records.encode_video(video, features) for video in VIDEOS]
  shards = [
    records.write_shard(directory / f'train-{i}.array_record', part)
    for i, part in enumerate([encoded[:3], encoded[3:]])
  ]
  split = Split(len(VIDEOS), sum(COUNTS), tuple(shards))
  write_manifest(Manifest('tiny', STREAMS, {'train': split}), directory)


def test_records_give_the_same_batches(tmp_path):
  write_data_set(tmp_path)
  source = records.open_split(tmp_path, 'train')
  assert_same(training(source=source), training())
  assert_same(evaluation(3, source=source), evaluation(3))
  texts = list(read_texts(source))
  assert texts == [Video(v.video_id, v.captions, {}, v.category) for v in VIDEOS]


def test_texts_of_nothing():
  assert list(read_texts([])) == []


def test_reading_stops_when_the_loop_is_left():
  before = threading.active_count()
  order = TrainOrder(COUNTS, 4, 2, seed=5)
  batches = train_batches(
    VIDEOS, VOCABULARY, order, BatchShape(STREAMS, SIZES, LENGTH), range(10**12)
  )
  steps = [step for step, _ in itertools.islice(batches, 3)]
  assert steps == [0, 1, 2]
  batches.close()
  for thread in threading.enumerate():
    if thread.name.startswith('grain-prefetch'):
      thread.join(5)
  assert threading.active_count() <= before


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'sizes': {'image': (5,)}}, "no size for stream 'audio'; there are sizes for: image"),
    ({'sizes': {**SIZES, 'image': (5, 2)}}, r"'image': size \(5, 2\), but a sequence has \(T,\)"),
    ({'sizes': {**SIZES, 'image': (0,)}}, r"'image': size \(0,\)"),
    ({'sizes': {**SIZES, 'map': (3, 5)}}, "'map'.* grid has 6 cells"),
    ({'source': VIDEOS[:3]}, 'made for 7 videos, the split holds 3'),
    ({'host': 2, 'hosts': 2}, 'host 2 of 2'),
    ({'hosts': 3}, 'batch size of 4 does not divide over 3 hosts'),
    ({'steps': range(5, 4)}, 'steps 5 to 4'),
    ({'length': 1}, 'captions of 1 tokens'),
  ],
)
def test_bad_arguments_are_found_at_once(options, message):
  options = dict(options)
  order = TrainOrder(COUNTS, 4, 2, seed=5)
  source, steps = options.pop('source', VIDEOS), options.pop('steps', range(1))
  sizes, length = options.pop('sizes', SIZES), options.pop('length', LENGTH)
  shape = BatchShape(STREAMS, sizes, length)
  with pytest.raises(DataError, match=message):
    train_batches(source, VOCABULARY, order, shape, steps, Reading(**options))


def test_a_bad_record_ends_reading_with_its_name():
  videos = [*VIDEOS[:2], Video('bad', (), {**VIDEOS[2].features, 'image': np.ones((2, 1))})]
  batches = eval_batches(videos, VOCABULARY, BatchShape(STREAMS, SIZES, LENGTH), batch_size=1)
  seen = []
  with pytest.raises(DataError, match=r"^video 'bad', stream 'image': shape \(2, 1\)"):
    seen.extend(step for step, _ in batches)
  assert seen == [0, 1]
