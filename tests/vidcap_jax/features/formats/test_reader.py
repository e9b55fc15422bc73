"""Choosing one of several arrays of a video."""

import pickle

import numpy as np
import pytest

from tests import feature_files
from tests.feature_files import WRITERS, npy, npz, torch_zip
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


def several(path, form, leaf='image'):
  """Two videos, each with features, boxes and scores."""
  arrays = {leaf: np.ones((2, 3, 4), np.float32), 'boxes': np.zeros((2, 3, 4), np.float32)}
  arrays['scores'] = np.arange(6, dtype=np.float32).reshape(2, 3)
  if form == 'folder':
    path.mkdir()
    for name in ('a', 'b'):
      (path / f'{name}.npz').write_bytes(npz(arrays))
      (path / f'{name}.npz').rename(path / f'{name}.{"pkl" if name == "b" else "npz"}')
    (path / 'b.pkl').write_bytes(pickle.dumps(arrays))
    return path
  if form in ('pickle', 'torch'):
    return WRITERS[form](path, {'a': arrays, 'b': arrays})
  if form == 'lmdb':
    return WRITERS[form](path, {'a': npz(arrays), 'b': torch_zip(arrays)})
  if form == 'tar':
    files = {f'a.{name}.npy': npy(array) for name, array in arrays.items()}
    return WRITERS[form](path, {**files, 'a.json': b'{}', 'b.npz': npz(arrays)})
  return WRITERS[form](path, {f'{v}/{name}': arrays[name] for v in 'ab' for name in arrays})


@pytest.mark.parametrize('form', ['folder', 'npz', 'pickle', 'torch', 'h5', 'lmdb', 'tar'])
def test_one_of_several_arrays_is_chosen(tmp_path, form):
  by_stream = open_features('image', several(tmp_path / 'one', form))
  by_key = open_features('image', several(tmp_path / 'two', form, 'feat'), 'feat')
  for reader in (by_stream, by_key):
    assert sorted(reader.ids) == ['a', 'b']
    for name in 'ab':
      assert reader.read(name).tolist() == np.ones((2, 3, 4)).tolist()
      assert reader.read_scores(name).tolist() == [[0, 1, 2], [3, 4, 5]]

  def read_another():
    open_features('image', by_key.path, 'other').read('a')

  with pytest.raises(DataError, match=r'named .?(other|image).*--keys=image='):
    read_another()


def test_scores_next_to_the_only_array_need_no_key(tmp_path):
  arrays = {'x': np.ones((2, 3, 4)), 'scores': np.ones((2, 3))}
  path = feature_files.write_pickle(tmp_path / 'objects', {'a': arrays, 'b': arrays})
  reader = open_features('objects', path)
  assert sorted(reader.ids) == ['a', 'b']
  assert reader.read('b').shape == (2, 3, 4)
