"""Arrays of features in requests: ``.npy`` without pickles, checked before memory is allocated."""

import io
import math
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from vidcap_jax.serving.errors import ApiError

_HEADER_BYTES = 1024  # numpy's own headers have at most a few hundred
_DTYPES = ('f2', 'f4', 'f8', 'i1', 'i2', 'i4', 'i8', 'u1', 'u2', 'u4')
_MOST_AXES = 8


def read_npy(name: str, file: BinaryIO) -> np.ndarray:
  """The array in a ``.npy`` file.

  Args:
    name: of the part, for messages.
    file: at its beginning.

  Raises:
    ApiError: anything but numbers in NumPy's format, whose header fits the size of the file.
  """
  shape, dtype, is_fortran = _read_header(name, file)
  if dtype.str.lstrip('<>|=') not in _DTYPES:
    raise ApiError(
      'bad_features',
      f'{name}: an array of {dtype.str[:20]}; give real numbers, such as float16 or float32',
    )
  begin = file.tell()
  stored = file.seek(0, io.SEEK_END) - begin
  declared = math.prod(shape) * dtype.itemsize
  if len(shape) > _MOST_AXES or any(size < 0 for size in shape) or declared != stored:
    raise ApiError(
      'bad_features',
      f'{name}: the header declares {declared:,} bytes of values and {stored:,} follow; the file '
      f'is damaged{" or cut short" if stored < declared else ""}',
    )
  file.seek(begin)
  array = np.frombuffer(file.read(declared), dtype)
  return array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)


def _read_header(name: str, file: BinaryIO) -> tuple[tuple[int, ...], np.dtype, bool]:
  """The shape, the type of values, and whether the first axis varies fastest."""
  readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
  try:
    version = npy.read_magic(file)
    shape, is_fortran, dtype = readers[version](file, max_header_size=_HEADER_BYTES)
  except Exception:  # numpy's parser of headers raises errors of many types
    raise ApiError(
      'bad_features', f"{name}: not an array in NumPy's format .npy, as numpy.save writes it"
    ) from None
  return shape, dtype, is_fortran
