"""Features in tar files: intact, damaged, and with other members."""

import io
import tarfile

import numpy as np
import pytest

from tests import feature_files
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
  with pytest.raises(DataError, match='b.tar: v1.npy .*a.tar'):
    open_features('image', tmp_path)
  with tarfile.open(tmp_path / 'c.tar', 'w:gz') as archive:
    archive.addfile(tarfile.TarInfo('v.npy'), io.BytesIO())
  with pytest.raises(DataError, match='compressed'):
    open_features('image', tmp_path / 'c.tar')
