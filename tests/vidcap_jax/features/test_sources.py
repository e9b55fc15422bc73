"""Reading a video's feature streams into the form of a record."""

import numpy as np
import pytest

from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import layout, open_features
from vidcap_jax.features.sources import Source, read_features


def make_source(tmp_path, name, arrays, axes='TC', **limits) -> Source:
  folder = tmp_path / name
  folder.mkdir()
  for video_id, array in arrays.items():
    np.save(folder / f'{video_id}.npy', np.asarray(array, np.float32))
  stream = Stream(name, 'sequence', (None, 2), dtype='float16', optional=True)
  reader = open_features(name, folder)
  names = {video_id: video_id for video_id in arrays if video_id != 'unused'}
  return Source(stream, reader, names, layout.parse(axes), **limits)


def frames(count):
  """(count, 2); row i is (i, i)."""
  return np.repeat(np.arange(count)[:, None], 2, axis=1)


def test_arrays_are_ordered_and_absent_ones_have_no_frames(tmp_path):
  source = make_source(tmp_path, 'image', {'v1': frames(3).T, 'unused': frames(1).T}, 'CT')
  array = source.load('v1')
  np.testing.assert_array_equal(array, frames(3).astype(np.float16), strict=True)
  assert source.load('v2').shape == (0, 2)
  assert source.unused == ['unused']


def test_streams_are_aligned_and_limited(tmp_path):
  image = make_source(tmp_path, 'image', {'v1': frames(9)}, max_frames=3)
  motion = make_source(tmp_path, 'motion', {'v1': frames(5)})
  features = read_features('v1', [image, motion], {'image+motion': 'truncate'})
  assert features['image'][:, 0].tolist() == [0, 2, 4]
  assert features['motion'][:, 0].tolist() == [0, 1, 2, 3, 4]


def test_units_of_a_clock_are_kept_whole(tmp_path):
  fine = make_source(tmp_path, 'fine', {'v1': frames(8)}, max_frames=4, block=2)
  coarse = make_source(tmp_path, 'coarse', {'v1': frames(4)}, block=1)
  features = read_features('v1', [fine, coarse], {})
  assert features['fine'][:, 0].tolist() == [0, 1, 6, 7]
  assert features['coarse'][:, 0].tolist() == [0, 3]


def test_error_names_the_file(tmp_path):
  source = make_source(tmp_path, 'image', {'v1': [[np.nan, 0.0]]})
  with pytest.raises(DataError, match=r'v1\.npy: .*NaN'):
    read_features('v1', [source], {})
