"""Features in LMDB: whole, cut short, and two streams of one store."""

import sys

import numpy as np
import pytest

from tests import feature_files
from tests.feature_files import npz
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


def test_truncated_lmdb(tmp_path):
  path = feature_files.write_lmdb(tmp_path / 'a', {f'v{i}': np.ones((99, 4)) for i in range(9)})
  whole = (path / 'data.mdb').read_bytes()
  for size in (0, 100, 5000, 9000, len(whole) - 1):
    (path / 'data.mdb').write_bytes(whole[:size])
    with pytest.raises(DataError, match=r'data.mdb: (truncated|cannot be read as LMDB)'):
      open_features('image', path)


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
