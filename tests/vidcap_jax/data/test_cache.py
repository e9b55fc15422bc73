"""Batches from features cached in memory or on the devices are those from records."""

import dataclasses

import jax
import numpy as np
import pytest

from vidcap_jax.data import cache, pipeline
from vidcap_jax.data.batch import default_sizes
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.records import Video, absent
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.distributed.mesh import make_mesh, to_devices
from vidcap_jax.errors import DataError

STREAMS = (
  Stream('image', 'sequence', (None, 3), longest=9, dtype='float16'),
  Stream('audio', 'vector', (2,), longest=1, dtype='float32'),
  Stream('low', 'grid', (None, 2, 2, 3), longest=8, dtype='float16'),
  Stream('high', 'grid', (None, 1, 1, 3), longest=4, dtype='float16'),
  Stream('objects', 'regions', (None, None, 2), longest=5, most_regions=3, dtype='float16'),
)
BLOCKS = {'low': 2, 'high': 1}
VOCABULARY = Vocabulary((*SPECIAL, 'a', 'b'))
MODES = ('host', 'device')


def make_videos(count: int) -> list[Video]:
  """Of all lengths; some lack a stream, some regions are absent, some zeros are negative."""
  rng = np.random.default_rng(0)
  videos = []
  for i in range(count):
    units, frames, regions = 1 + i % 4, 1 + i % 9, 1 + i % 4
    objects = rng.normal(size=(1 + i % 5, regions, 2)).astype(np.float16)
    objects[:, :1] *= -float(i % 2)
    arrays = {
      'image': rng.normal(size=(frames, 3)).astype(np.float16),
      'audio': rng.normal(size=(1, 2)).astype(np.float32),
      'low': -np.abs(rng.normal(size=(2 * units, 2, 2, 3))).astype(np.float16),
      'high': rng.normal(size=(units, 1, 1, 3)).astype(np.float16),
      'objects': objects,
    }
    lacking = STREAMS[i % 7] if i % 7 in (0, 1, 4) else None
    if lacking:
      arrays[lacking.name] = absent(lacking)
    arrays['unread'] = np.zeros((2, 2), np.float16)
    videos.append(Video(f'v{i}', ('a', 'b a')[: 1 + i % 2], arrays, i % 3, i % 2))
  return videos


def batches(mode, videos, mesh, **options):
  sizes = default_sizes(STREAMS, 6, BLOCKS)
  order = TrainOrder(np.array([len(v.captions) for v in videos]), 8, 2, seed=3)
  texts = [dataclasses.replace(video, features={}) for video in videos]
  features = cache.load_features(mode, videos, texts, STREAMS, sizes, BLOCKS, mesh)
  shape = pipeline.BatchShape(features.streams, sizes, length=4, blocks=BLOCKS)
  steps, reading = range(2 * order.steps_per_epoch), pipeline.Reading(**options)
  read = pipeline.train_batches(features.source, VOCABULARY, order, shape, steps, reading)
  for _, batch in read:
    yield jax.device_get(features.fill(to_devices(batch, mesh)))


def bits(array: np.ndarray) -> bytes:
  return array.tobytes()


@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('shape', [(8, 1), (4, 2), (1, 8)])
@pytest.mark.parametrize('count', [21, 3])
def test_the_same_batches_bit_for_bit(mode, shape, count):
  mesh, videos = make_mesh(*shape), make_videos(count)
  expected = list(batches('none', videos, mesh))
  found = list(batches(mode, videos, mesh))
  assert any((one['video_index'] < 0).any() for one in expected)
  assert jax.tree.all(jax.tree.map(lambda a: np.isfinite(a).all(), expected))
  assert jax.tree.map(bits, found) == jax.tree.map(bits, expected)


def test_each_device_holds_its_part():
  mesh, videos = make_mesh(4, 2), make_videos(21)
  sizes = default_sizes(STREAMS, 6, BLOCKS)
  kept = cache.load_features('device', videos, videos, STREAMS, sizes, BLOCKS, mesh)
  (held,) = [c.cell_contents for c in kept.fill.__closure__ if isinstance(c.cell_contents, dict)]
  on_one = sum(array.addressable_shards[0].data.nbytes for array in jax.tree.leaves(held))
  assert on_one == cache.bytes_needed(21, STREAMS, sizes, 4)
  # 6 videos each: values of all streams, and a byte of mask for each vector of them
  values = 6 * 3 * 2 + 2 * 4 + 6 * 4 * 3 * 2 + 3 * 3 * 2 + 5 * 3 * 2 * 2
  assert on_one == 6 * (values + 6 + 1 + 24 + 3 + 15)


class Unreadable(list):
  def __getitem__(self, index):
    raise AssertionError('read before the memory was checked')


@pytest.mark.parametrize(
  ('mode', 'other'), [('host', 'none$'), ('device', 'host or none.*data.max_frames')]
)
def test_too_little_memory_is_found_before_reading(mode, other, monkeypatch):
  monkeypatch.setattr(cache, '_free_on_host', lambda: 100)
  videos, sizes = Unreadable(make_videos(3)), default_sizes(STREAMS, 6, BLOCKS)
  message = rf'data.cache={mode}.* 0.00 GiB.*data.cache={other}'
  with pytest.raises(DataError, match=message):
    cache.load_features(mode, videos, videos, STREAMS, sizes, BLOCKS, make_mesh())


def test_whole_records_are_counted_in_memory(monkeypatch):
  """They are kept whole, however few frames a batch takes of them."""
  monkeypatch.setattr(cache, '_free_on_host', lambda: 899)
  videos, mesh = make_videos(3), make_mesh()
  one = (Stream('image', 'sequence', (None, 3), longest=50, dtype='float16'),)
  sizes = default_sizes(one, 1)
  assert cache.bytes_needed(3, one, sizes, 1) < 899 < 3 * 50 * 3 * 2
  with pytest.raises(DataError, match=r'data.cache=host.*data.cache=none$'):
    cache.load_features('host', Unreadable(videos), videos, one, sizes, {}, mesh)


def test_an_accelerator_with_too_little_memory(monkeypatch):
  class Device:
    process_index = 0

    def memory_stats(self):
      return {'bytes_limit': 5 * 2**30, 'bytes_in_use': 3 * 2**30}

  devices = np.array([[Device(), Device()], [Device(), Device()]])
  shape = {'data': 2, 'model': 2}
  kind = type('Mesh', (), {'devices': devices, 'local_devices': list(devices.flat), 'shape': shape})
  monkeypatch.setattr(cache, '_free_on_host', lambda: 4 * 2**30)
  cache.check_memory('device', 2 * 2**30, kind())
  with pytest.raises(DataError, match=r'2.00 GiB.*device.*2.00 GiB'):
    cache.check_memory('device', 2 * 2**30 + 1, kind())
  # What lies on both halves of the data axis is put together on the host.
  monkeypatch.setattr(cache, '_free_on_host', lambda: 4 * 2**30 - 1)
  with pytest.raises(DataError, match=r'4.00 GiB.*host'):
    cache.check_memory('device', 2 * 2**30, kind())


def test_an_unknown_mode():
  with pytest.raises(DataError, match="data.cache='disk'.*none, host, device"):
    cache.load_features('disk', [], [], STREAMS, {}, {}, make_mesh())


def test_in_memory_a_video_is_read_once():
  reads = []

  class Counting(list):
    def __getitem__(self, index):
      reads.append(index)
      return super().__getitem__(index)

  videos, sizes = Counting(make_videos(5)), default_sizes(STREAMS, 6, BLOCKS)
  kept = cache.load_features('host', videos, videos, STREAMS, sizes, BLOCKS, make_mesh())
  assert sorted(reads) == list(range(5))
  for i in range(5):
    assert set(kept.source[i].features) == {s.name for s in STREAMS}  # 'unread' is not kept
  assert len(reads) == 5
  np.testing.assert_array_equal(kept.source[1].features['image'], videos[1].features['image'])
