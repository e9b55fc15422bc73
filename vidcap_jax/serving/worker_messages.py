"""Results of workers as bytes, without pickles: a file may have taken over the worker's process."""

import io
import json
import zipfile
from typing import Any

import numpy as np

from vidcap_jax.serving.errors import CODES, ApiError
from vidcap_jax.serving.media import Decoded

MOST_BYTES = 2**30


def to_bytes(result: Decoded | ApiError, compiled: int = 0) -> bytes:
  """An archive of arrays: the features, and the rest as JSON.

  Args:
    result: of reading a file.
    compiled: how many programs the worker has compiled so far.
  """
  described: dict[str, Any] = {'compiled': compiled}
  arrays: dict[str, Any] = {}
  if isinstance(result, ApiError):
    described['error'] = result.to_dict()
  else:
    described |= {
      'notes': result.notes,
      'times': result.times,
      'pictures': list(result.pictures.items()),
    }
    arrays = {f'features.{name}': array for name, array in result.features.items()}
  text = np.frombuffer(json.dumps(described).encode(), np.uint8)
  file = io.BytesIO()
  np.savez(file, json=text, **arrays)
  return file.getvalue()


def from_bytes(data: bytes) -> tuple[Decoded | ApiError, int]:
  """The inverse of ``to_bytes``.

  Raises:
    ValueError: not such an archive.
  """
  try:
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
      described = json.loads(arrays['json'].tobytes())
      features = {
        key.removeprefix('features.'): arrays[key] for key in arrays.files if key != 'json'
      }
    compiled = int(described['compiled'])
    if error := described.get('error'):
      if error['code'] not in CODES:
        raise ValueError('an unknown code')
      return ApiError(error['code'], error['message']), compiled
    times = {name: tuple(map(float, each)) for name, each in described['times'].items()}
    pictures = {float(time): str(uri) for time, uri in described['pictures']}
    notes = tuple(map(str, described['notes']))
    return Decoded(features, notes, times, pictures), compiled
  except (LookupError, TypeError, AttributeError, EOFError, OSError, zipfile.BadZipFile) as error:
    raise ValueError(f'not a result of a worker: {error!r}') from None
