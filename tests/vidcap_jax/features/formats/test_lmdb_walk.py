"""Damaged pages of LMDB do not crash the process."""

import contextlib

import numpy as np

from tests import feature_files
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import open_features


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
