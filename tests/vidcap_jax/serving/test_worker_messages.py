"""Results of workers as bytes."""

import io
import pickle

import numpy as np
import pytest

from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.media import Decoded
from vidcap_jax.serving.worker_messages import from_bytes, to_bytes


def test_results_come_back():
  features = {'image': np.ones((3, 4), np.float16), 'json': np.zeros((0, 2), np.float32)}
  decoded = Decoded(features, ('a note',), {'image': (0.1, 0.5, 2.25)}, {0.1: 'data:x'})
  back, compiled = from_bytes(to_bytes(decoded, 3))
  assert compiled == 3
  assert (back.notes, back.times, back.pictures) == (
    decoded.notes,
    decoded.times,
    decoded.pictures,
  )
  assert {*back.features} == {*features}
  for name, array in features.items():
    np.testing.assert_array_equal(back.features[name], array)
    assert back.features[name].dtype == array.dtype


def test_errors_come_back():
  back, _ = from_bytes(to_bytes(ApiError('too_long', 'why')))
  assert (back.status, back.code, back.message) == (413, 'too_long', 'why')


def archive(**arrays) -> bytes:
  file = io.BytesIO()
  np.savez(file, **arrays)
  return file.getvalue()


@pytest.mark.parametrize(
  'data',
  [
    *(b'', b'PK\x03\x04', pickle.dumps(print), archive(), archive(x=np.ones(2))),
    archive(json=np.frombuffer(b'[]', np.uint8)),
    archive(json=np.array([print], object)),
    archive(json=np.frombuffer(b'{"compiled": 0, "error": {"code": "x"}}', np.uint8)),
  ],
)
def test_anything_else_is_refused(data):
  with pytest.raises(ValueError):
    from_bytes(data)
