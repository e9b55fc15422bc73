"""Reads the tensors of a PyTorch state dict without PyTorch and without running code.

``torch.save`` before version 1.6 wrote five pickles in a row (a magic number, a protocol version,
facts about the system, the object, the list of storage keys) and then each storage's raw bytes.
A pickle names callables to build its objects with; a general unpickler calls whatever it is told
to. This one knows three names (``OrderedDict``, ``_rebuild_tensor_v2`` and the storage types),
gives its own meaning to each, and refuses every other.
"""

import collections
import math
import pathlib
import pickle
import struct
from typing import Any, BinaryIO, NamedTuple

import numpy as np

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001

# Storage class -> type of one element, little endian.
_STORAGES = {
  'DoubleStorage': '<f8',
  'FloatStorage': '<f4',
  'HalfStorage': '<f2',
  'LongStorage': '<i8',
  'IntStorage': '<i4',
  'ShortStorage': '<i2',
  'CharStorage': '<i1',
  'ByteStorage': '<u1',
  'BoolStorage': '|b1',
}


class WeightsError(ValueError):
  """A weight file that is damaged, of another format, or asks for code to be run."""


# Named tuples: a pickle can set attributes of the objects it makes, but not of these.
class _StorageType(NamedTuple):
  """Stands for ``torch.FloatStorage`` and its like in the pickle; it can't be called."""

  dtype: str


class _Storage(NamedTuple):
  """A run of elements in the file, read after the pickle that mentions it."""

  key: str
  dtype: str
  size: int


class _Tensor(NamedTuple):
  """A view of a storage: offset, sizes and strides in elements."""

  storage: _Storage
  offset: int
  shape: tuple[int, ...]
  strides: tuple[int, ...]


def _natural(*numbers: Any) -> bool:
  return all(type(n) is int and n >= 0 for n in numbers)


def _rebuild_tensor(storage, offset, shape, strides, *_) -> _Tensor:
  """Our ``torch._utils._rebuild_tensor_v2``: checks that the view lies inside its storage."""
  sound = type(storage) is _Storage and type(shape) is tuple and type(strides) is tuple
  if not (sound and len(shape) == len(strides) and _natural(offset, *shape, *strides)):
    raise WeightsError('a tensor with malformed arguments')
  last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
  if math.prod(shape) and last >= storage.size:
    raise WeightsError(f'a tensor {shape} reaches beyond its storage of {storage.size} elements')
  return _Tensor(storage, offset, shape, strides)


class _Unpickler(pickle.Unpickler):
  """Builds plain containers, numbers, strings and tensors; knows no other name."""

  def __init__(self, file: BinaryIO):
    super().__init__(file, encoding='utf-8')
    self.storages: dict[str, _Storage] = {}

  def find_class(self, module: str, name: str):
    if (module, name) == ('collections', 'OrderedDict'):
      return collections.OrderedDict
    if (module, name) == ('torch._utils', '_rebuild_tensor_v2'):
      # A fresh function each time: a pickle may set attributes of what it is given.
      return lambda *arguments: _rebuild_tensor(*arguments)
    if module == 'torch' and name in _STORAGES:
      return _StorageType(_STORAGES[name])
    raise WeightsError(f'refuses to load {module}.{name}: it may run code')

  def persistent_load(self, pid):
    # ('storage', type, key, device, number of elements, view or None)
    if type(pid) is not tuple or len(pid) != 6 or pid[0] != 'storage':
      raise WeightsError('an unknown persistent object')
    _, kind, key, _, size, view = pid
    if not (type(kind) is _StorageType and type(key) is str and _natural(size)):
      raise WeightsError('a malformed storage')
    if view is not None:
      raise WeightsError('a storage that is a view of another (PyTorch 0.1) is not supported')
    storage = _Storage(key, kind.dtype, size)
    if self.storages.setdefault(key, storage) != storage:
      raise WeightsError(f'storage {key} is described in two ways')
    return storage


def _load_plain(file: BinaryIO):
  """A pickle that holds no tensors (magic number, version, system facts, storage keys)."""
  loader = _Unpickler(file)
  value = loader.load()
  if loader.storages:
    raise WeightsError('tensors where none belong')
  return value


def _read_storage(file: BinaryIO, storage: _Storage) -> np.ndarray:
  header = file.read(8)
  size = struct.unpack('<q', header)[0] if len(header) == 8 else -1
  if size != storage.size:
    raise WeightsError(f'storage {storage.key}: {storage.size} elements expected, found {size}')
  wanted = size * np.dtype(storage.dtype).itemsize
  data = file.read(wanted)
  if len(data) != wanted:
    raise WeightsError(f'storage {storage.key}: the file ends within it')
  return np.frombuffer(data, storage.dtype)


def _view(tensor: _Tensor, arrays: dict[str, np.ndarray]) -> np.ndarray:
  base = arrays[tensor.storage.key][tensor.offset :]
  steps = tuple(step * base.itemsize for step in tensor.strides)
  # _rebuild_tensor has checked the bounds; the copy lets go of the storage.
  return np.lib.stride_tricks.as_strided(base, tensor.shape, steps, writeable=False).copy()


def load_state_dict(path: str | pathlib.Path) -> dict[str, np.ndarray]:
  """The arrays of a state dict saved in PyTorch's legacy format, by parameter name.

  Args:
    path: a ``.pth`` file written by ``torch.save(model.state_dict(), path)`` before PyTorch 1.6, or
      with ``_use_new_zipfile_serialization=False``.

  Raises:
    WeightsError: the file is of another format, damaged, holds something else than tensors by
      name, or names anything but tensors' own constructors (none of which is called).
    OSError: the file can't be read.
  """
  with pathlib.Path(path).open('rb') as file:
    if file.read(2) == b'PK':
      raise WeightsError(
        f'{path}: a zip file, as PyTorch writes since 1.6; only the older format is read'
      )
    file.seek(0)
    try:
      if _load_plain(file) != _MAGIC or _load_plain(file) != _PROTOCOL:
        raise WeightsError('not in the PyTorch legacy format')
      system = _load_plain(file)
      if not isinstance(system, dict) or system.get('little_endian') is not True:
        raise WeightsError('written on a big-endian machine')
      loader = _Unpickler(file)
      tensors = loader.load()
      keys = _load_plain(file)
      if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(loader.storages):
        raise WeightsError('the list of storages differs from those the tensors use')
      arrays = {key: _read_storage(file, loader.storages[key]) for key in keys}
    except WeightsError as error:
      raise WeightsError(f'{path}: {error}') from None
    except Exception as error:  # a damaged pickle raises almost anything
      raise WeightsError(f'{path}: damaged or not a PyTorch file ({error})') from None
  if not isinstance(tensors, dict):
    raise WeightsError(f'{path}: holds a {type(tensors).__name__}, not a state dict')
  odd = [str(name) for name, value in tensors.items() if type(value) is not _Tensor]
  if odd:
    raise WeightsError(f'{path}: {odd[0]!r} is not a tensor')
  return {str(name): _view(tensor, arrays) for name, tensor in tensors.items()}
