"""Random damage to feature files: each video is read, or an error names it."""

import contextlib
import pathlib
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.feature_files import (
  WRITERS,
  npy,
  npz,
  temporary_folder,
  torch_zip,
  write_lmdb,
  write_tar,
)
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import FeatureReader, open_features
from vidcap_jax.features.formats.check import load

SEQUENCE = Stream('image', 'sequence', (None, 4))
ARRAYS = {f'v{n}': np.arange(n * 4, dtype=np.float32).reshape(n, 4) for n in (1, 2, 3)}


# Where bytes are replaced: start, length (in parts of the whole), what comes there.
DAMAGE = st.tuples(st.floats(0, 1), st.floats(0, 1) | st.just(0.0), st.binary(max_size=12))

names = st.text(
  st.characters(codec='utf-8', exclude_characters='/\\.\0', exclude_categories=['Cs']),
  min_size=1,
  max_size=5,
)


def damaged(data: bytes, damage) -> bytes:
  start, length, middle = damage
  begin = round(start * len(data))
  return data[:begin] + middle + data[begin + round(length * (len(data) - begin)) :]


def read_all(reader: FeatureReader, where: pathlib.Path) -> dict[str, np.ndarray]:
  """What is readable of it; what isn't must be named."""
  found = {}
  for name in reader.ids:
    try:
      found[name] = load(reader, name, SEQUENCE)
    except DataError as error:
      message = str(error)
    else:
      assert (found[name].dtype, found[name].shape[1:]) == (np.float16, (4,))
      assert np.isfinite(found[name]).all()
      continue
    assert str(where) in message
  return found


def open_damaged(path: pathlib.Path) -> FeatureReader | None:
  message = str(path)
  with contextlib.suppress(DataError):
    try:
      return open_features('image', path)
    except DataError as error:
      message = str(error)
      raise
  assert str(path) in message
  assert "'image'" in message
  return None


@settings(max_examples=120)
@given(st.sampled_from(['npy', 'npz', 'pkl', 'pth']), DAMAGE)
def test_one_damaged_file_of_a_folder(form, damage):
  array = ARRAYS['v3']
  write = {'npy': npy, 'npz': lambda a: npz({'x': a}), 'pkl': pickled, 'pth': torch_of}
  with temporary_folder() as path:
    (path / 'a.npy').write_bytes(npy(array))
    (path / f'b.{form}').write_bytes(damaged(write[form](array), damage))
    found = read_all(open_features('image', path), path)
    np.testing.assert_array_equal(found['a'], array)


def pickled(array) -> bytes:
  return pickle.dumps(array)


def torch_of(array) -> bytes:
  return torch_zip({'image': array})


@settings(max_examples=250, derandomize=True)  # The HDF5 library is not ours to fuzz at random.
@given(st.sampled_from(['npz', 'pickle', 'torch', 'tar', 'h5']), DAMAGE)
def test_one_damaged_file_of_all_videos(form, damage):
  with temporary_folder() as path:
    file = WRITERS[form](path / 'image', ARRAYS)
    file.write_bytes(damaged(file.read_bytes(), damage))
    if reader := open_damaged(file):
      read_all(reader, path)


@pytest.mark.parametrize('form', ['npz', 'pickle', 'torch', 'tar', 'h5', 'lmdb'])
def test_truncated_files_are_errors(form):
  with temporary_folder() as path:
    file = WRITERS[form](path / 'image', ARRAYS)
    file = file / 'data.mdb' if file.is_dir() else file
    whole = file.read_bytes()
    # Past the last array, archives have padding that may be missing, and end there.
    for size in range(0, len(whole), max(1, len(whole) // 97)):
      file.unlink()
      file.write_bytes(whole[:size])
      reader = open_damaged(file.parent if form == 'lmdb' else file)
      assert reader is None or set(reader.ids) == set(ARRAYS)
      if reader:
        read_all(reader, path)


@settings(max_examples=20)  # Each store is walked through by a process of its own.
@given(st.sampled_from([npy, pickled, torch_of, lambda a: npz({'x': a})]), DAMAGE)
def test_damaged_values_of_stores(write, damage):
  value = damaged(write(ARRAYS['v2']), damage)
  whole = npy(ARRAYS['v3'])
  with temporary_folder() as path:
    for file in (
      write_lmdb(path / 'store', {'a': whole, 'b': value}),
      write_tar(path / 'tar', {'a.npy': whole, 'b.pkl': value}),
    ):
      reader = open_features('image', file)
      assert set(reader.ids) == {'a', 'b'}
      np.testing.assert_array_equal(read_all(reader, path)['a'], ARRAYS['v3'])


@settings(max_examples=25)
@given(st.sampled_from(['dataset_info.json', 'features.json']), DAMAGE)
def test_damaged_descriptions_of_tfds(name, damage):
  with temporary_folder() as path:
    WRITERS['tfds'](path / 'mine', ARRAYS)
    file = path / 'mine' / name
    file.write_bytes(damaged(file.read_bytes(), damage))
    if reader := open_damaged(path / 'mine'):
      read_all(reader, path)


@settings(max_examples=40)
@given(st.sampled_from(['npz', 'pickle', 'torch', 'h5', 'lmdb']), st.sets(names, max_size=4))
def test_all_names_are_found(form, ids):
  arrays = {name: np.full((1, 4), i, np.float32) for i, name in enumerate(sorted(ids))}
  with temporary_folder() as path:
    try:
      file = WRITERS[form](path / 'image', arrays)
    except (ValueError, UnicodeError):  # The form can't hold them.
      return
    reader = open_damaged(file)
    assert (reader is None) == (not ids)
    if reader:
      assert {n: a[0, 0] for n, a in read_all(reader, path).items()} == {
        name: array[0, 0] for name, array in arrays.items()
      }
