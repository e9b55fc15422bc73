"""A TFDS data set as a source of features."""

import pytest

from data_prep.dataset.builder import build
from tests.building import options
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


def test_a_data_set_is_a_source_of_features(source):
  build(options(source))
  reader = open_features('image', source / 'out')
  assert sorted(reader.ids) == ['v1', 'v2', 'v3', 'v4', 'v5']
  assert reader.read('v3').shape == (3, 4)
  manifest, _ = build(options(source, out=str(source / 'two'), name='out'))
  again, _ = build(
    options(source, features={'image': str(source / 'out')}, out=str(source / 'three'), name='out')
  )
  assert again.hash == manifest.hash
  shard = source / 'out' / 'out-val.array_record-00000-of-00001'
  shard.write_bytes(shard.read_bytes()[:-9])
  with pytest.raises(DataError, match="split 'val': truncated|cannot be read by TFDS"):
    open_features('image', source / 'out')
  (source / 'out' / 'dataset_info.json').write_text('{')
  with pytest.raises(DataError, match='cannot be read by TFDS'):
    open_features('image', source / 'out')
