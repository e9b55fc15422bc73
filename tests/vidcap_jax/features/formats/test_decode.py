"""Pickles and PyTorch files are read as written, and none of their code is run."""

import os
import pathlib
import pickle

import numpy as np
import pytest

from tests import feature_files
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features

TORCH = pathlib.Path(__file__).parent / 'torch_files'


def test_pickle_of_python_2(tmp_path):
  code = (
    b"(dp0\nS'v1'\np1\ncnumpy.core.multiarray\n_reconstruct\np2\n(cnumpy\nndarray\np3\n"
    b"(I0\ntp4\nS'b'\np5\ntp6\nRp7\n(I1\n(I1\nI2\ntp8\ncnumpy\ndtype\np9\n(S'f4'\np10\n"
    b"I0\nI1\ntp11\nRp12\n(I3\nS'<'\np13\nNNNI-1\nI-1\nI0\ntp14\nbI00\n"
    b"S'\\x00\\x00\\x80?\\x00\\x00\\x00\\xc0'\np15\ntp16\nbs."
  )
  (tmp_path / 'a.pkl').write_bytes(code)
  reader = open_features('image', tmp_path / 'a.pkl')
  np.testing.assert_array_equal(reader.read('v1'), np.array([[1, -2]], np.float32), strict=True)


@pytest.mark.parametrize('name', ['zip.pth', 'legacy.pth'])
def test_files_that_torch_wrote(name):
  """torch.save of float32, views of one storage, bfloat16, half, a parameter and an array."""
  reader = open_features('image', TORCH / name)
  whole = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
  expected = {
    'view': whole[1],
    'turned': whole[0].T,
    'brain': np.array([1.5, -2], np.float32),
    'half': np.ones((2, 2), np.float16),
    'parameter': np.ones(2, np.float32),
    'array': np.ones((2, 3), np.float32),
    'inner/x': np.zeros(3, np.int64),
  }
  assert sorted(reader.ids) == sorted(expected)
  for key, array in expected.items():
    np.testing.assert_array_equal(reader.read(key), array, strict=True)


class Runs:
  def __reduce__(self):
    return os.system, ('touch ran',)


def test_no_code_is_run(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for attack in ({'a': Runs()}, {'a': [Runs()]}, Runs()):
    code = pickle.dumps(attack)
    (tmp_path / 'x.pkl').write_bytes(code)
    with pytest.raises(DataError, match=r'x.pkl: refuses to load posix.system'):
      open_features('image', tmp_path / 'x.pkl')
    for path in (
      feature_files.write_lmdb(tmp_path / 'lmdb', {'a': code}),
      feature_files.write_tar(tmp_path / 'x', {'a.pkl': code}),
    ):
      with pytest.raises(DataError, match=r"\['a'\]: .*refuses to load"):
        open_features('image', path).read('a')
  objects = np.empty(1, object)
  objects[0] = {}
  reader = open_features('image', feature_files.write_pickle(tmp_path / 'y', {'a': objects}))
  with pytest.raises(DataError, match='Python objects'):
    reader.read('a')
  assert not (tmp_path / 'ran').exists()
