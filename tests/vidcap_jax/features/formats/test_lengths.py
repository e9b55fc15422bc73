"""Streams of equal length or on one clock."""

import numpy as np
import pytest

from data_prep.dataset.builder import build
from tests.building import options, read_features, write_stream
from vidcap_jax.data.batch import subsample
from vidcap_jax.errors import DataError


def test_streams_of_equal_length(source):
  features = {
    'image': write_stream(source, 'image', lambda n: np.arange(20 * 4).reshape(20, 4)),
    'motion': write_stream(source, 'motion', lambda n: np.arange((n + 4) * 3).reshape(n + 4, 3)),
    'audio': write_stream(source, 'audio', lambda n: np.ones((n, 2))),
  }
  made = {'features': features, 'overwrite': True}
  with pytest.raises(DataError, match=r'5 of 5 .*motion.* 7 .*image.* 20.*image=resample'):
    build(options(source, **made, align={'motion+image': 'error'}))
  build(options(source, **made, align={'motion+image': 'truncate'}))
  v3 = read_features(source)['v3']
  assert {n: len(a) for n, a in v3.items()} == {'image': 7, 'motion': 7, 'audio': 3}
  assert v3['image'][:, 0].tolist() == list(range(0, 28, 4))
  build(
    options(
      source, **made, align={'motion+image': 'resample'}, max_frames={'motion': 3, 'image': 3}
    )
  )
  v3 = read_features(source)['v3']
  assert (v3['image'][:, 0] / 4).tolist() == [0, subsample(20, 7)[3], 19]
  assert (v3['motion'][:, 0] / 3).tolist() == [0, 3, 6]
  with pytest.raises(DataError, match=r'--align=image\+audio'):
    build(options(source, **made, align={'motion+image': 'error', 'image+audio': 'error'}))


def test_streams_on_one_clock_keep_the_same_units(source):
  # Frame i of each stream holds the unit it belongs to: 8, 2 and 1 frames of a unit.
  blocks = {'pool2': 8, 'pool4': 2, 'pool5': 1}
  for name, block in blocks.items():
    frames = lambda n, block=block: np.arange(11 * n * block - (block > 1)) // block  # noqa: E731
    write_stream(source, name, lambda n, frames=frames: np.stack([frames(n)] * 3, axis=1))
  features = {name: str(source / name) for name in blocks}
  manifest, _ = build(
    options(source, features=features, blocks=blocks, max_frames={'pool2': 39, 'pool5': 6})
  )
  v3 = read_features(source)['v3']
  units = {name: array[:, 0].astype(int) for name, array in v3.items()}
  kept = units['pool5'].tolist()
  assert len(kept) == 4  # 39 frames of pool2 are four whole units, less than the six of pool5.
  assert (kept[0], kept[-1]) == (0, 32)
  for name, block in blocks.items():
    assert units[name].tolist() == np.repeat(kept, block).tolist()[: len(units[name])]
    assert len(units[name]) == 4 * block - (block > 1)  # The last unit is cut short.
  assert manifest.stream('pool2').longest == 31


def test_short_videos_on_a_clock_stay_whole(source):
  features = {}
  for name, block in {'pool4': 2, 'pool5': 1}.items():
    features[name] = write_stream(source, name, lambda n, block=block: np.ones((n * block, 3)))
  build(
    options(source, features=features, blocks={'pool4': 2, 'pool5': 1}, max_frames={'pool4': 10})
  )
  assert {n: len(a) for n, a in read_features(source)['v3'].items()} == {'pool4': 6, 'pool5': 3}


def test_a_stream_that_a_video_lacks_is_not_aligned(source):
  write_stream(source, 'motion', lambda n: np.ones((2, 3)))
  (source / 'motion' / 'v3.npy').unlink()
  features = {n: str(source / n) for n in ('image', 'motion')}
  build(
    options(source, features=features, optional=('motion',), align={'image+motion': 'truncate'})
  )
  assert [len(a) for a in read_features(source)['v3'].values()] == [3, 0]
