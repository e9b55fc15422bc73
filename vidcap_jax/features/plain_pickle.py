"""Reads pickles of plain containers and NumPy arrays without running code.

A pickle names functions that build its objects; the standard unpickler calls any of them. This one
replaces the few functions that arrays need with its own, and refuses all others. An array becomes
an ``ArrayData``, which is checked before NumPy uses it.
"""

import collections
import math
import pickle
import re
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

# Code and size of one element, without the byte order.
_ELEMENT = re.compile(r'f2|f4|f8|[iu][1248]|b1')


class PickleError(ValueError):
  """A pickle that is damaged, would run code, or holds unsupported objects."""


class _Dtype:
  """Replaces ``numpy.dtype``; only real numbers can become arrays."""

  __slots__ = ('code', 'order')

  def __init__(self, code: Any = None, *_):
    code = _text(code)
    if code is None or not (_ELEMENT.fullmatch(code) or re.match('[OSUVMmcgb?]', code)):
      raise PickleError('a malformed dtype')
    self.code, self.order = code, '|'

  def __setstate__(self, state):
    order = _text(state[1]) if type(state) is tuple and len(state) > 1 else None
    if order not in ('<', '>', '|', '='):
      raise PickleError('a malformed dtype')
    self.order = order

  def number(self) -> np.dtype:
    if not _ELEMENT.fullmatch(self.code):
      what = 'Python objects' if self.code[0] == 'O' else f'elements of type {self.code!r}'
      raise PickleError(f'it holds {what}, not numbers')
    return np.dtype(self.order.replace('|', '<').replace('=', '<') + self.code)


class ArrayData:
  """Replaces ``numpy.ndarray``: an array's state in a pickle; ``array`` returns the array."""

  __slots__ = ('_array',)

  def __init__(self, *_):
    self._array: np.ndarray | str = 'an array without contents'

  def __setstate__(self, state):
    """Takes (version, shape, dtype, whether in Fortran order, bytes)."""
    if type(state) is not tuple or len(state) != 5:
      raise PickleError('a malformed array')
    _, shape, dtype, fortran, raw = state
    self._make(raw, dtype, shape, 'F' if fortran is True else 'C', None)

  def _make(self, raw, dtype, shape, order, axes) -> None:
    if type(dtype) is not _Dtype or not natural(shape) or len(shape) > 8:
      raise PickleError('a malformed array')
    try:
      element = dtype.number()
    except PickleError as error:  # raised by ``array``: the other arrays can be used
      self._array = str(error)
      return
    if type(raw) is str:  # how protocol 0 stores bytes
      raw = raw.encode('latin1')
    if type(raw) not in (bytes, bytearray) or len(raw) != math.prod(shape) * element.itemsize:
      raise PickleError(f'an array of shape {shape} with too few or too many bytes')
    array = np.frombuffer(raw, element)
    if order == 'K' and natural(axes) and sorted(axes) == list(range(len(shape))):
      self._array = array.reshape(shape).transpose(axes)
    elif order in ('C', 'F'):
      self._array = array.reshape(shape, order=order)
    else:
      raise PickleError('a malformed array')

  def array(self) -> np.ndarray:
    """The array; PickleError if its elements are not real numbers."""
    if isinstance(self._array, str):
      raise PickleError(self._array)
    return self._array


def _from_buffer(raw, dtype, shape, order, axes=None) -> ArrayData:
  data = ArrayData()
  data._make(raw, dtype, shape, _text(order), axes)
  return data


def _scalar(dtype, raw) -> ArrayData:
  return _from_buffer(raw, dtype, (), 'C')


def _encode(text, encoding='utf-8') -> bytes:
  """Replaces ``codecs.encode``, with which old protocols store bytes."""
  if type(text) is not str or encoding != 'latin1':
    raise PickleError('a malformed text')
  return text.encode('latin1')


def _no_bytes(*arguments) -> bytes:
  """Replaces ``bytes``, with which old protocols store empty bytes."""
  if arguments:
    raise PickleError('malformed bytes')
  return b''


def _text(value) -> str | None:
  if type(value) is bytes:
    return value.decode('latin1')
  return value if type(value) is str else None


def natural(numbers: Any) -> bool:
  """Whether it is a tuple of whole numbers, none below 0."""
  return type(numbers) is tuple and all(type(n) is int and n >= 0 for n in numbers)


_NUMPY: Mapping[str, Callable] = {
  'multiarray._reconstruct': ArrayData,
  'multiarray.scalar': _scalar,
  'numeric._frombuffer': _from_buffer,
}
NAMES: Mapping[str, Callable] = {
  '_codecs.encode': _encode,
  'builtins.bytes': _no_bytes,
  '__builtin__.bytes': _no_bytes,
  # The default of a defaultdict is not needed: only existing keys are read.
  'collections.defaultdict': lambda *_: {},
  'builtins.list': lambda *_: [],
  '__builtin__.list': lambda *_: [],
  'numpy.dtype': _Dtype,
  'numpy.ndarray': lambda *_: None,  # only an argument of _reconstruct
  # NumPy 1 and 2.
  **{f'numpy.core.{name}': meaning for name, meaning in _NUMPY.items()},
  **{f'numpy._core.{name}': meaning for name, meaning in _NUMPY.items()},
}


class PlainUnpickler(pickle.Unpickler):
  """Builds plain containers, numbers, text and ``ArrayData``; refuses all other names."""

  names: Mapping[str, Callable] = NAMES

  def __init__(self, file: IO[bytes], encoding: str = 'bytes'):
    super().__init__(file, encoding=encoding)

  def find_class(self, module: str, name: str):
    if (module, name) == ('collections', 'OrderedDict'):
      return collections.OrderedDict
    meaning = self.names.get(f'{module}.{name}') if '.' not in name else None
    if meaning is None:
      raise PickleError(f'refuses to load {module}.{name}: it may run code')
    # A new function each time, because a pickle may set attributes of it.
    return lambda *arguments: meaning(*arguments)


def load_plain(file: IO[bytes]):
  """Loads a pickle of plain containers, numbers, text and arrays.

  Strings of Python 2 are returned as bytes.

  Raises:
    PickleError: a damaged pickle, or one that names anything else (which is not called).
  """
  try:
    return PlainUnpickler(file).load()
  except PickleError:
    raise
  except Exception as error:  # a damaged pickle raises almost anything
    raise PickleError(f'damaged or not a pickle ({error})') from None
