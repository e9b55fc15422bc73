"""Features in tar files and LMDB: whole, damaged, and with more in them than features."""

import contextlib
import io
import pickle
import sys
import tarfile

import numpy as np
import pytest

from tests.data_prep import feature_files
from tests.data_prep.feature_files import npz
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


def test_tar_files(tmp_path):
  path = feature_files.write_tar(tmp_path / 'a', {'v1': np.ones((9, 4)), 'v2': np.ones((9, 4))})
  whole = path.read_bytes()
  for damaged, match in (
    (whole[:1024], 'truncated or damaged'),
    (whole[:512], 'damaged'),
    (whole[:1100], 'truncated or damaged'),
    (whole + whole, 'more data after the end'),
    (whole[:1024] + b'x' * 512 + whole[1024:], 'truncated or damaged'),
  ):
    path.write_bytes(damaged)
    with pytest.raises(DataError, match=match):
      open_features('image', path)
  path.write_bytes(whole)
  feature_files.write_tar(tmp_path / 'b', {'x/v3': np.ones((2, 4))})
  reader = open_features('image', tmp_path)
  assert sorted(reader.ids) == ['v1', 'v2', 'x/v3']
  path.write_bytes(whole[:700])
  with pytest.raises(DataError, match=r"a.tar\['v1'\]: v1.npy: truncated"):
    reader.read('v1')
  path.write_bytes(whole)
  feature_files.write_tar(tmp_path / 'b', {'v1': np.ones((2, 4))})
  with pytest.raises(DataError, match='v1.npy is there twice'):
    open_features('image', tmp_path)
  with tarfile.open(tmp_path / 'c.tar', 'w:gz') as archive:
    archive.addfile(tarfile.TarInfo('v.npy'), io.BytesIO())
  with pytest.raises(DataError, match='compressed'):
    open_features('image', tmp_path / 'c.tar')


def test_truncated_lmdb(tmp_path):
  path = feature_files.write_lmdb(tmp_path / 'a', {f'v{i}': np.ones((99, 4)) for i in range(9)})
  whole = (path / 'data.mdb').read_bytes()
  for size in (0, 100, 5000, 9000, len(whole) - 1):
    (path / 'data.mdb').write_bytes(whole[:size])
    with pytest.raises(DataError, match=r'data.mdb: (truncated|cannot be read as LMDB)'):
      open_features('image', path)


def test_damaged_pages_of_lmdb_do_not_end_the_process(tmp_path):
  arrays = {f'v{i:03d}': np.full((99, 4), i, np.float32) for i in range(40)}
  path = feature_files.write_lmdb(tmp_path / 'a', arrays)
  whole = (path / 'data.mdb').read_bytes()
  refused = 0
  for page in range(2, len(whole) // 4096, 9):  # The first two say where the others are.
    broken = bytearray(whole)
    broken[4096 * page : 4096 * page + 64] = b'\xff' * 64
    (path / 'data.mdb').write_bytes(broken)
    try:
      reader = open_features('image', path)
    except DataError as error:
      refused += 'data.mdb: ' in str(error)
      continue
    for name in reader.ids:
      with contextlib.suppress(DataError):
        reader.read(name)
  assert refused


def test_what_a_store_notes_of_itself_is_no_video(tmp_path):
  notes = {'__keys__': pickle.dumps({'a'}), '__value_dumps__': pickle.dumps('identity')}
  path = feature_files.write_lmdb(tmp_path / 'a', {**notes, 'a': npz({'feat': np.ones((2, 4))})})
  assert list(open_features('image', path).ids) == ['a']


def test_two_streams_of_one_lmdb(tmp_path):
  value = npz({'image': np.ones((2, 4)), 'motion': np.zeros((2, 3))})
  path = feature_files.write_lmdb(tmp_path / 'a', {'v': value})
  image, motion = open_features('image', path), open_features('motion', path)
  assert (image.read('v').shape, motion.read('v').shape) == ((2, 4), (2, 3))


def test_lmdb_is_an_extra(tmp_path, monkeypatch):
  path = feature_files.write_lmdb(tmp_path / 'a', {'v': np.ones((2, 4))})
  monkeypatch.setitem(sys.modules, 'lmdb', None)
  with pytest.raises(DataError, match=r'pip install .vidcap_jax\[lmdb\]'):
    open_features('image', path)
