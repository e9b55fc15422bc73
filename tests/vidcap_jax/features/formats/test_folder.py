"""A folder with one file a video."""

import numpy as np
import pytest

from tests.vidcap_jax.features.formats.test_check import folder
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


def test_two_files_of_one_video(tmp_path):
  folder(tmp_path, a=np.ones((2, 4)))
  np.savez(tmp_path / 'a.npz', x=np.zeros((3, 4)))
  with pytest.raises(DataError, match='both a.npy and a.npz'):
    open_features('image', tmp_path)


def test_damaged_files_are_named(tmp_path):
  folder(tmp_path, good=np.ones((50, 4)), objects=np.array([{}, None], object))
  whole = (tmp_path / 'good.npy').read_bytes()
  np.savez_compressed(tmp_path / 'zip.npz', x=np.random.default_rng(0).normal(size=(50, 4)))
  zipped = (tmp_path / 'zip.npz').read_bytes()
  np.savez(tmp_path / 'two.npz', x=np.ones(2), y=np.ones(2))
  files = {
    'empty.npy': b'',
    'cut.npy': whole[:300],
    'header.npy': whole[:40],
    'text.npy': b'this is not an array',
    'cut.npz': zipped[: len(zipped) // 2],
    'bytes.npz': zipped[:80] + b'\0' * 40 + zipped[120:],
    'huge.npy': whole.replace(b'(50, 4)', b'(' + b'9' * 14 + b',)')[:200],
  }
  broken = tmp_path / 'broken'
  broken.mkdir()
  for name, data in files.items():
    # The same stem in both forms would be refused, so each lies in a folder of its own.
    (broken / name).mkdir()
    (broken / name / name).write_bytes(data)
    reader = open_features('image', broken / name)
    with pytest.raises(DataError) as caught:
      reader.read(name.rpartition('.')[0])
    assert str(broken / name / name) in str(caught.value), name
  reader = open_features('image', tmp_path)
  with pytest.raises(DataError, match='holds Python objects'):
    reader.read('objects')
  with pytest.raises(DataError, match=r'holds 2 arrays \(x, y\)'):
    reader.read('two')
