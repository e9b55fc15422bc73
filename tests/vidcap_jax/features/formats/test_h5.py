"""Features in HDF5: one data set a video, or a table of all of them."""

import h5py
import numpy as np
import pytest

from tests import feature_files
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


def test_h5_table_with_ids(tmp_path):
  table = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
  for ids, names in (
    (np.array([b'v1', b'v2', b'v3']), ['v1', 'v2', 'v3']),
    (np.array([7, 8, 9]), ['7', '8', '9']),
    (np.array(['x', 'ä', 'z'], object), ['x', 'ä', 'z']),
  ):
    path = tmp_path / f'{names[0]}.h5'
    with h5py.File(path, 'w') as file:
      if ids.dtype == object:
        file.create_dataset('ids', data=ids, dtype=h5py.string_dtype())
      else:
        file['ids'] = ids
      file['resnet'] = table
    reader = open_features('image', path)
    assert list(reader.ids) == names
    np.testing.assert_array_equal(reader.read(names[1]), table[1], strict=True)
  with h5py.File(tmp_path / 'list.h5', 'w') as file:
    file['ids'], file['a'], file['b'] = [b'a', b'b'], table[0], table[1]
  reader = open_features('image', tmp_path / 'list.h5')
  assert sorted(reader.ids) == ['a', 'b', 'ids']
  np.testing.assert_array_equal(reader.read('b'), table[1], strict=True)
  with h5py.File(tmp_path / 'two.h5', 'w') as file:
    file['ids'], file['image'] = [b'a', b'b'], table
  with pytest.raises(DataError, match=r"\['a'\]: 'image' has shape \(3, 2, 4\), but there are 2"):
    open_features('image', tmp_path / 'two.h5').read('a')
  with h5py.File(tmp_path / 'one.h5', 'w') as file:
    file['ids'], file['image'] = [b'a', b'a'], table
  with pytest.raises(DataError, match="'ids'.*'a'"):
    open_features('image', tmp_path / 'one.h5')


def test_h5_links_and_objects(tmp_path):
  path = tmp_path / 'image.h5'
  with h5py.File(path, 'w') as file:
    file['group/a'] = np.ones((2, 4))
    file['again'] = file['group/a']
    file['soft'] = h5py.SoftLink('/group/a')
    file['gone'] = h5py.SoftLink('/nowhere')
    file['group/up'] = h5py.SoftLink('/')
    file.create_dataset('words', data=['x'], dtype=h5py.string_dtype())
  reader = open_features('image', path)
  assert sorted(reader.ids) == ['again', 'gone', 'group/a', 'soft', 'words']
  assert reader.read('soft').shape == reader.read('again').shape == (2, 4)
  with pytest.raises(DataError, match=r"image.h5\['gone'\]: cannot be read"):
    reader.read('gone')


def test_damaged_data_set_in_h5(tmp_path):
  path = tmp_path / 'image.h5'
  with h5py.File(path, 'w') as file:
    file.create_dataset('a', data=np.arange(4000.0), compression='gzip')
    offset = file['a'].id.get_chunk_info(0).byte_offset
  data = bytearray(path.read_bytes())
  data[offset : offset + 50] = b'\xff' * 50
  path.write_bytes(data)
  with pytest.raises(DataError, match=r"image.h5\['a'\]: cannot be read"):
    open_features('image', path).read('a')


def test_tables_without_ids(tmp_path):
  feats = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
  file = feature_files.write_h5(tmp_path / 'a', {'feats': feats, 'lens': np.array([2, 2, 1])})
  reader = open_features('image', file, 'feats', 'video7')
  assert list(reader.ids) == ['video7', 'video8', 'video9']
  np.testing.assert_array_equal(reader.read('video8'), feats[1])
  assert list(open_features('image', file, 'feats', 'clip_008').ids)[1:] == ['clip_009', 'clip_010']
  for key, first, match in (
    (None, 'v0', 'none of them named'),
    ('feats', 'video', '--rows=image=video: .*number'),
  ):
    with pytest.raises(DataError, match=match):
      open_features('image', file, key, first)
