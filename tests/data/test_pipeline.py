import itertools
import threading

import numpy as np
import pytest

from vidcap_jax.data import records
from vidcap_jax.data.batch import default_sizes, empty_batch
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.pipeline import eval_batches, read_texts, train_batches
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.schema import (
  DataError,
  Manifest,
  Split,
  Stream,
  read_manifest,
  write_manifest,
)
from vidcap_jax.data.vocabulary import EOS, PAD, build_vocabulary

STREAMS = (
  Stream('audio', 'vector', (3,), optional=True),
  Stream('image', 'sequence', (None, 4), longest=7),
  Stream('map', 'grid', (None, 2, 3, 5), longest=4),
  Stream('objects', 'regions', (None, None, 6), longest=4, most_regions=5),
)
SIZES = {'audio': (), 'image': (5,), 'map': (3, 6), 'objects': (3, 4)}
LENGTH = 6
COUNTS = [3, 5, 0, 1, 4, 2, 6]


def make_videos(counts=COUNTS, seed=0):
  """Videos of many lengths with features that are nowhere zero, but for absent regions."""
  rng = np.random.default_rng(seed)

  def array(*shape):
    return rng.uniform(1, 2, shape).astype(np.float16)

  videos = []
  for i, count in enumerate(counts):
    objects = array(i % 5, i % 6, 6)
    objects[:, 1:2] = 0
    features = {
      'audio': array(i % 2, 3),
      'image': array(i + 1, 4),
      'map': array(i % 5, 2, 3, 5),
      'objects': objects,
    }
    captions = tuple(f'caption {c} of video {i} has many words'[: 12 + 3 * i] for c in range(count))
    videos.append(Video(f'video{i}', captions, features, i - 1))
  return videos


VIDEOS = make_videos()
VOCABULARY = build_vocabulary([c for v in VIDEOS for c in v.captions], min_count=1, max_words=5)


def training(order=None, source=VIDEOS, streams=STREAMS, sizes=SIZES, **options):
  order = order or TrainOrder(COUNTS, 4, 2, seed=5)
  stop = options.pop('stop_step', 2 * order.steps_per_epoch)
  start = options.pop('start_step', 0)
  options = {'length': LENGTH, 'start_step': start, 'stop_step': stop, **options}
  return list(train_batches(source, VOCABULARY, streams, order, sizes=sizes, **options))


def evaluation(batch_size, source=VIDEOS, streams=STREAMS, **options):
  options = {'sizes': SIZES, 'length': LENGTH, **options}
  return list(eval_batches(source, VOCABULARY, streams, batch_size=batch_size, **options))


def leaves(batch):
  for key, value in sorted(batch.items()):
    yield from sorted(value.items()) if isinstance(value, dict) else [(key, value)]


def assert_same(found, expected):
  assert [step for step, _ in found] == [step for step, _ in expected]
  for (_, a), (_, b) in zip(found, expected, strict=True):
    for (key, x), (_, y) in zip(leaves(a), leaves(b), strict=True):
      assert x.dtype == y.dtype
      np.testing.assert_array_equal(x, y, err_msg=key)


def join_hosts(parts):
  """Global batches from what each host read."""
  joined = []
  for rows in zip(*parts, strict=True):
    assert len({step for step, _ in rows}) == 1
    batches = [batch for _, batch in rows]
    joined.append((rows[0][0], concatenate(batches)))
  return joined


def concatenate(batches):
  return {
    key: concatenate([b[key] for b in batches])
    if isinstance(value, dict)
    else np.concatenate([b[key] for b in batches])
    for key, value in batches[0].items()
  }


def expected_stream(video, stream, size):
  """Features and mask of one video, the slow and plain way."""
  stored = video.features[stream.name]
  features = np.zeros((*size, stream.channels), np.float16)
  mask = np.zeros(size, bool)
  if stream.kind == 'vector':
    return (stored[0], True) if len(stored) else (features, mask)
  frames = range(len(stored))
  if len(stored) > size[0]:
    frames = [round(f) for f in np.linspace(0, len(stored) - 1, size[0])]
  for t, frame in enumerate(frames):
    if stream.kind == 'sequence':
      features[t], mask[t] = stored[frame], True
    elif stream.kind == 'grid':
      cells = [stored[frame, y, x] for y in range(2) for x in range(3)]
      features[t], mask[t] = cells, True
    else:
      for n in range(min(size[1], stored.shape[1])):
        features[t, n], mask[t, n] = stored[frame, n], stored[frame, n].any()
  return features, mask


def check_row(batch, r, video, captions):
  """A row holds a video's features and captions, and nothing but zeros beside them."""
  for stream in STREAMS:
    features, mask = expected_stream(video, stream, SIZES[stream.name])
    np.testing.assert_array_equal(batch['features'][stream.name][r], features)
    np.testing.assert_array_equal(batch['masks'][stream.name][r], mask)
  slots = len(batch['captions'][r])
  chosen = [*captions, *[-1] * (slots - len(captions))]
  assert batch['caption_index'][r].tolist() == chosen
  for tokens, c in zip(batch['captions'][r], chosen, strict=True):
    expected = VOCABULARY.encode(video.captions[c], LENGTH) if c >= 0 else np.zeros(LENGTH)
    np.testing.assert_array_equal(tokens, expected)
  assert batch['category'][r] == video.category


def check_padding_row(batch, r):
  assert batch['video_index'][r] == -1
  assert batch['category'][r] == -1
  assert (batch['captions'][r] == PAD).all()
  assert (batch['caption_index'][r] == -1).all()
  for stream in STREAMS:
    assert not batch['features'][stream.name][r].any()
    assert not batch['masks'][stream.name][r].any()


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


@pytest.mark.parametrize('hosts', [1, 2, 4])
def test_global_batches_do_not_depend_on_hosts(hosts):
  parts = [training(host=h, hosts=hosts) for h in range(hosts)]
  assert all(len(batch['video_index']) == 4 // hosts for _, batch in parts[0])
  assert_same(join_hosts(parts), training())


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


@pytest.mark.parametrize('per_host', [1, 2, 3, 5])
@pytest.mark.parametrize('hosts', [1, 2, 4])
@pytest.mark.parametrize('videos', [1, 3, 7])
def test_evaluation_visits_each_video_once(videos, hosts, per_host):
  size = per_host * hosts
  parts = [evaluation(size, source=VIDEOS[:videos], host=h, hosts=hosts) for h in range(hosts)]
  assert {len(part) for part in parts} == {-(-videos // size)}  # equal steps, or hosts would hang
  seen = []
  for _, batch in join_hosts(parts):
    assert len(batch['video_index']) == size
    for r, index in enumerate(batch['video_index']):
      if index < 0:
        check_padding_row(batch, r)
      else:
        check_row(batch, r, VIDEOS[index], range(min(1, len(VIDEOS[index].captions))))
        seen.append(int(index))
  assert seen == list(range(videos))


class Watched:
  """A source that knows which of its videos were read."""

  def __init__(self, source):
    self.source, self.read = source, []

  def __len__(self):
    return len(self.source)

  def __getitem__(self, index):
    self.read.append(int(index))
    return self.source[index]


@pytest.mark.parametrize(('split', 'hosts'), [('train', 2), ('train', 4), ('val', 4)])
def test_hosts_read_only_their_own_records(split, hosts, tiny_data):
  """7 videos on 2 and on 4 hosts, 3 on 4, all from one shard of a data set."""
  manifest = read_manifest(tiny_data)
  assert len(manifest.splits[split].shards) == 1
  options = {'streams': manifest.streams, 'sizes': default_sizes(manifest.streams), 'threads': 0}
  whole = open_split(tiny_data, split)
  sources = [Watched(open_split(tiny_data, split)) for _ in range(hosts)]
  parts = [
    evaluation(hosts, source=source, host=h, hosts=hosts, **options)
    for h, source in enumerate(sources)
  ]
  assert len({len(part) for part in parts}) == 1
  assert sorted(i for source in sources for i in source.read) == list(range(len(whole)))
  assert_same(join_hosts(parts), evaluation(hosts, source=whole, **options))

  order = TrainOrder(np.array([len(v.captions) for v in whole]), 4, 2, seed=1)
  for source in sources:
    source.read.clear()
  parts = [
    training(order, source, host=h, hosts=hosts, **options) for h, source in enumerate(sources)
  ]
  for part, source in zip(parts, sources):
    rows = [int(i) for _, batch in part for i in batch['video_index'] if i >= 0]
    assert source.read == rows
  assert_same(join_hosts(parts), training(order, whole, **options))


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
    VIDEOS, VOCABULARY, STREAMS, order, sizes=SIZES, length=LENGTH, start_step=0, stop_step=10**12
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
    ({'start_step': 5, 'stop_step': 4}, 'steps 5 to 4'),
    ({'length': 1}, 'captions of 1 tokens'),
  ],
)
def test_bad_arguments_are_found_at_once(options, message):
  order = TrainOrder(COUNTS, 4, 2, seed=5)
  options = {
    'source': VIDEOS,
    'sizes': SIZES,
    'length': LENGTH,
    'start_step': 0,
    'stop_step': 1,
    **options,
  }
  source = options.pop('source')
  with pytest.raises(DataError, match=message):
    train_batches(source, VOCABULARY, STREAMS, order, **options)


def test_a_bad_record_ends_reading_with_its_name():
  videos = [*VIDEOS[:2], Video('bad', (), {**VIDEOS[2].features, 'image': np.ones((2, 1))})]
  batches = eval_batches(videos, VOCABULARY, STREAMS, sizes=SIZES, length=LENGTH, batch_size=1)
  seen = []
  with pytest.raises(DataError, match=r"^video 'bad', stream 'image': shape \(2, 1\)"):
    seen.extend(step for step, _ in batches)
  assert seen == [0, 1]
