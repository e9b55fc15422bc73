"""Small videos of every kind of stream, batches of them, and what each row must hold."""

import numpy as np

from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.pipeline import BatchShape, Reading, eval_batches, train_batches
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import PAD, build_vocabulary

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
  shape = BatchShape(streams, sizes, LENGTH)
  steps = range(start, stop)
  return list(train_batches(source, VOCABULARY, order, shape, steps, Reading(**options)))


def evaluation(
  batch_size, source=VIDEOS, streams=STREAMS, sizes=SIZES, captions_per_video=1, **options
):
  shape = BatchShape(streams, sizes, LENGTH)
  arguments = (batch_size, captions_per_video, Reading(**options))
  return list(eval_batches(source, VOCABULARY, shape, *arguments))


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
