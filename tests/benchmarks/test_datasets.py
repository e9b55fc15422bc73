"""A data set for a benchmark holds the given captions and features."""

import numpy as np

from benchmarks.datasets import build_dataset
from vidcap_jax.data.records import open_split


def test_videos_by_split(tmp_path):
  frames = [np.full((2, 4), n, np.float32) for n in range(3)]
  videos = [('train', ['a cat'], frames[0]), ('train', ['a dog', 'one dog'], frames[1])]
  folder = build_dataset(tmp_path, [*videos, ('val', ['a bird'], frames[2])])
  train, val = open_split(folder, 'train'), open_split(folder, 'val')
  assert {v.video_id: v.captions for v in (train[0], train[1])} == {
    'v0': ('a cat',),
    'v1': ('a dog', 'one dog'),
  }
  assert val[0].video_id == 'v2'
  np.testing.assert_array_equal(val[0].features['image'], frames[2])
