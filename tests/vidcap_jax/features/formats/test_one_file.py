"""All videos in one pickle."""

import numpy as np
import pytest

from tests import feature_files
from vidcap_jax.features.formats import open_features


@pytest.mark.parametrize('protocol', range(6))
def test_pickles_of_every_protocol_and_kind_of_key(tmp_path, protocol):
  contents = {
    'text': np.arange(6, dtype='>f4').reshape(2, 3),
    b'bytes': np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    7: np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1),
    'list': [[1.5, 2], [3, 4]],
    'scalar': np.float32(3),
  }
  path = feature_files.write_pickle(tmp_path / 'image', contents, protocol)
  reader = open_features('image', path)
  assert sorted(reader.ids) == ['7', 'bytes', 'list', 'scalar', 'text']
  for name, array in zip(('text', 'bytes', '7', 'list', 'scalar'), contents.values()):
    np.testing.assert_array_equal(reader.read(name), array)
