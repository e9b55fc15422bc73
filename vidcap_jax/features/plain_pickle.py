"""Reads pickles of plain containers and NumPy arrays without running code.

A pickle names callables to build its objects with; a general unpickler calls whatever it is told
to. This one gives its own meaning to the few names that arrays are made of, and refuses every
other. What it makes of an array is an ``ArrayData``, checked before NumPy sees any of it.
"""

import collections
import math
import pickle
import re
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

# Code and size of one element; the byte order is set apart.
_ELEMENT = re.compile(r'f2|f4|f8|[iu][1248]|b1')


class PickleError(ValueError):
  """A pickle that is damaged, asks for code to be run, or holds what it should not."""


class _Dtype:
  """Our ``numpy.dtype``: real numbers only, or 'O' to be refused where an array is made of it."""

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
  """Our ``numpy.ndarray``: what a pickle says of an array, made into one by ``array``."""

  __slots__ = ('_made',)

  def __init__(self, *_):
    self._made: np.ndarray | str = 'an array without contents'

  def __setstate__(self, state):
    """(version, shape, dtype, whether in Fortran order, bytes)."""
    if type(state) is not tuple or len(state) != 5:
      raise PickleError('a malformed array')
    _, shape, dtype, fortran, raw = state
    self._make(raw, dtype, shape, 'F' if fortran is True else 'C', None)

  def _make(self, raw, dtype, shape, order, axes) -> None:
    if type(dtype) is not _Dtype or not natural(shape) or len(shape) > 8:
      raise PickleError('a malformed array')
    try:
      element = dtype.number()
    except PickleError as error:  # Only this array is unusable: said when it is asked for.
      self._made = str(error)
      return
    if type(raw) is str:  # As protocol 0 has bytes.
      raw = raw.encode('latin1')
    if type(raw) not in (bytes, bytearray) or len(raw) != math.prod(shape) * element.itemsize:
      raise PickleError(f'an array of shape {shape} with too few or too many bytes')
    array = np.frombuffer(raw, element)
    if order == 'K' and natural(axes) and sorted(axes) == list(range(len(shape))):
      self._made = array.reshape(shape).transpose(axes)
    elif order in ('C', 'F'):
      self._made = array.reshape(shape, order=order)
    else:
      raise PickleError('a malformed array')

  def array(self) -> np.ndarray:
    """The array; PickleError if its elements are not real numbers."""
    if isinstance(self._made, str):
      raise PickleError(self._made)
    return self._made


def _from_buffer(raw, dtype, shape, order, axes=None) -> ArrayData:
  made = ArrayData()
  made._make(raw, dtype, shape, _text(order), axes)
  return made


def _scalar(dtype, raw) -> ArrayData:
  return _from_buffer(raw, dtype, (), 'C')


def _encode(text, encoding='utf-8') -> bytes:
  """Our ``codecs.encode``, with which old protocols write bytes."""
  if type(text) is not str or encoding != 'latin1':
    raise PickleError('a malformed text')
  return text.encode('latin1')


def _no_bytes(*arguments) -> bytes:
  """Our ``bytes``, with which old protocols write empty ones."""
  if arguments:
    raise PickleError('malformed bytes')
  return b''


def _text(value) -> str | None:
  if type(value) is bytes:
    return value.decode('latin1')
  return value if type(value) is str else None


def natural(numbers: Any) -> bool:
  """Whether it is a tuple of numbers from 0."""
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
  # What a defaultdict makes of absent keys does not matter: nothing is looked up in vain.
  'collections.defaultdict': lambda *_: {},
  'builtins.list': lambda *_: [],
  '__builtin__.list': lambda *_: [],
  'numpy.dtype': _Dtype,
  'numpy.ndarray': lambda *_: None,  # An argument of _reconstruct only.
  # NumPy 1 and 2.
  **{f'numpy.core.{name}': meaning for name, meaning in _NUMPY.items()},
  **{f'numpy._core.{name}': meaning for name, meaning in _NUMPY.items()},
}


class PlainUnpickler(pickle.Unpickler):
  """Builds plain containers, numbers, text and ``ArrayData``; knows no other name."""

  names: Mapping[str, Callable] = NAMES

  def __init__(self, file: IO[bytes], encoding: str = 'bytes'):
    super().__init__(file, encoding=encoding)

  def find_class(self, module: str, name: str):
    if (module, name) == ('collections', 'OrderedDict'):
      return collections.OrderedDict
    meaning = self.names.get(f'{module}.{name}') if '.' not in name else None
    if meaning is None:
      raise PickleError(f'refuses to load {module}.{name}: it may run code')
    # A fresh function each time: a pickle may set attributes of what it is given.
    return lambda *arguments: meaning(*arguments)


def load_plain(file: IO[bytes]):
  """The object in a pickle of plain containers, numbers, text and arrays.

  Python 2's texts come as bytes.

  Raises:
    PickleError: damaged, or it names anything else (which is not called).
  """
  try:
    return PlainUnpickler(file).load()
  except PickleError:
    raise
  except Exception as error:  # a damaged pickle raises almost anything
    raise PickleError(f'damaged or not a pickle ({error})') from None
