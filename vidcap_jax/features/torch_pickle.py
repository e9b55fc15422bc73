"""Reads the tensors of files that ``torch.save`` wrote, without PyTorch and without running code.

Since PyTorch 1.6 such a file is a zip archive with the object as a pickle (``data.pkl``) and the
raw bytes of each storage as a member. Before, it was five pickles (a magic number, a protocol
version, facts about the system, the object, the list of storage keys) followed by the storages,
each after its size. Tensors are read one by one when they are requested, so a dictionary of many
features needs the memory of one.
"""

import math
import os
import pathlib
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np

from vidcap_jax.features.plain_pickle import NAMES, ArrayData, PickleError, PlainUnpickler, natural

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001

# Storage class -> type of one element, little endian.
_STORAGES = {
  'DoubleStorage': '<f8',
  'FloatStorage': '<f4',
  'HalfStorage': '<f2',
  'BFloat16Storage': 'bfloat16',
  'LongStorage': '<i8',
  'IntStorage': '<i4',
  'ShortStorage': '<i2',
  'CharStorage': '<i1',
  'ByteStorage': '<u1',
  'BoolStorage': '|b1',
}


class WeightsError(PickleError):
  """A torch file that is damaged, of another format, or would run code."""


# Named tuples, because a pickle can set attributes of other objects that it makes.
class _StorageType(NamedTuple):
  """Replaces ``torch.FloatStorage`` and similar in the pickle; it can't be called."""

  dtype: str


class _Storage(NamedTuple):
  """A sequence of elements in the file, after the pickle that refers to it."""

  key: str
  dtype: str
  size: int

  @property
  def element(self) -> np.dtype:
    # NumPy has no bfloat16, whose bits are the upper half of a float32.
    return np.dtype('<u2' if self.dtype == 'bfloat16' else self.dtype)


class Tensor(NamedTuple):
  """A view of a storage: offset, sizes and strides in elements."""

  storage: _Storage
  offset: int
  shape: tuple[int, ...]
  strides: tuple[int, ...]


def _rebuild_tensor(storage, offset, shape, strides, *_) -> Tensor:
  """Replaces ``torch._utils._rebuild_tensor_v2``; checks that the view is inside its storage."""
  valid = type(storage) is _Storage and natural(shape) and natural(strides)
  if not (valid and len(shape) == len(strides) and natural((offset,))):
    raise WeightsError('a tensor with malformed arguments')
  tensor = Tensor(storage, offset, shape, strides)
  if math.prod(shape) and offset + _reach(tensor) > storage.size:
    raise WeightsError(f'a tensor {shape} reaches beyond its storage of {storage.size} elements')
  return tensor


def _reach(tensor: Tensor) -> int:
  """How many elements of its storage a tensor spans."""
  steps = zip(tensor.shape, tensor.strides, strict=True)
  return 1 + sum((n - 1) * step for n, step in steps) if math.prod(tensor.shape) else 0


def _rebuild_parameter(tensor, *_) -> Tensor:
  if type(tensor) is not Tensor:
    raise WeightsError('a malformed parameter')
  return tensor


class _Unpickler(PlainUnpickler):
  """Also builds tensors and their storages."""

  names = {
    **NAMES,
    'torch._utils._rebuild_tensor_v2': _rebuild_tensor,
    'torch._utils._rebuild_parameter': _rebuild_parameter,
  }

  def __init__(self, file: IO[bytes]):
    super().__init__(file, encoding='utf-8')
    self.storages: dict[str, _Storage] = {}

  def find_class(self, module: str, name: str):
    if module == 'torch' and name in _STORAGES:
      return _StorageType(_STORAGES[name])
    return super().find_class(module, name)

  def persistent_load(self, pid):
    # ('storage', type, key, device, number of elements), and in old files: view or None
    if type(pid) is not tuple or len(pid) not in (5, 6) or pid[0] != 'storage':
      raise WeightsError('an unknown persistent object')
    _, kind, key, _, size, *view = pid
    if not (type(kind) is _StorageType and type(key) is str and natural((size,))):
      raise WeightsError('a malformed storage')
    if view not in ([], [None]):
      raise WeightsError('a storage that is a view of another (PyTorch 0.1) is not supported')
    storage = _Storage(key, kind.dtype, size)
    if self.storages.setdefault(key, storage) != storage:
      raise WeightsError(f'storage {key} is described in two ways')
    return storage


class TorchFile(NamedTuple):
  """The object in a file, with a ``Tensor`` in place of each tensor, and a reader of tensors."""

  contents: Any
  read_bytes: Callable[[_Storage, int, int], bytes]  # storage, first and last byte + 1

  def read(self, tensor: Tensor) -> np.ndarray:
    """Reads a tensor; bfloat16 as float32. WeightsError if the file is damaged."""
    storage, element = tensor.storage, tensor.storage.element
    start, stop = (n * element.itemsize for n in (tensor.offset, tensor.offset + _reach(tensor)))
    try:
      data = self.read_bytes(storage, start, stop)
    except Exception as error:  # OSError, BadZipFile, struct.error …
      raise WeightsError(f'storage {storage.key}: cannot be read ({error})') from None
    if len(data) != stop - start:
      raise WeightsError(f'storage {storage.key}: the file ends within it')
    base = np.frombuffer(data, element)
    if storage.dtype == 'bfloat16':
      base = (base.astype('<u4') << 16).view('<f4')
    steps = tuple(step * base.itemsize for step in tensor.strides)
    # _rebuild_tensor has checked the bounds; the copy releases the bytes.
    return np.lib.stride_tricks.as_strided(base, tensor.shape, steps, writeable=False).copy()


def open_torch(file: BinaryIO) -> TorchFile:
  """Reads the object of a file that ``torch.save`` wrote; the file must stay open for its tensors.

  Raises:
    WeightsError: another format, a damaged file, or one that names anything but containers,
      numbers, NumPy arrays and tensors (no constructor that it names is called).
  """
  try:
    zipped = file.read(2) == b'PK'
    file.seek(0)
    return _open_zip(file) if zipped else _open_legacy(file)
  except WeightsError:
    raise
  except PickleError as error:
    raise WeightsError(str(error)) from None
  except Exception as error:  # a damaged file raises almost anything
    raise WeightsError(f'damaged or not a PyTorch file ({error})') from None


def _open_zip(file: BinaryIO) -> TorchFile:
  archive = zipfile.ZipFile(file)
  pickles = [name for name in archive.namelist() if name.rpartition('/')[2] == 'data.pkl']
  if len(pickles) != 1:
    raise WeightsError('a zip file without data.pkl, so none that PyTorch wrote')
  root = pickles[0].removesuffix('data.pkl')
  if root + 'byteorder' in archive.namelist() and archive.read(root + 'byteorder') != b'little':
    raise WeightsError('written on a big-endian machine')
  with archive.open(pickles[0]) as inner:
    loader = _Unpickler(inner)
    contents = loader.load()
  members = {}
  for key, storage in loader.storages.items():
    member = members[key] = archive.getinfo(f'{root}data/{key}')
    if member.compress_type != zipfile.ZIP_STORED:
      raise WeightsError(f'storage {key} is compressed')
    if member.file_size != storage.size * storage.element.itemsize:
      raise WeightsError(
        f'storage {key}: {storage.size} elements expected, found {member.file_size} bytes'
      )

  def read_bytes(storage: _Storage, start: int, stop: int) -> bytes:
    member = members[storage.key]
    if (start, stop) == (0, member.file_size):
      return archive.read(member)  # checks the checksum
    # Only part of a storage that several tensors share.
    # The data starts after a header of 30 bytes and two fields of varying length.
    file.seek(member.header_offset + 26)
    file.seek(member.header_offset + 30 + sum(struct.unpack('<HH', file.read(4))) + start)
    return file.read(stop - start)

  return TorchFile(contents, read_bytes)


def _load_bare(file: BinaryIO):
  """A pickle that holds no tensors (magic number, version, system facts, storage keys)."""
  loader = _Unpickler(file)
  value = loader.load()
  if loader.storages:
    raise WeightsError('tensors where none belong')
  return value


def _open_legacy(file: BinaryIO) -> TorchFile:
  if _load_bare(file) != _MAGIC or _load_bare(file) != _PROTOCOL:
    raise WeightsError('not in the PyTorch legacy format')
  system = _load_bare(file)
  if not isinstance(system, dict) or system.get('little_endian') is not True:
    raise WeightsError('written on a big-endian machine')
  loader = _Unpickler(file)
  contents = loader.load()
  keys = _load_bare(file)
  if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(loader.storages):
    raise WeightsError('the list of storages differs from those the tensors use')
  positions = _find_storages(file, [loader.storages[key] for key in keys])

  def read_bytes(storage: _Storage, start: int, stop: int) -> bytes:
    file.seek(positions[storage.key] + start)
    return file.read(stop - start)

  return TorchFile(contents, read_bytes)


def _find_storages(file: BinaryIO, storages: list[_Storage]) -> Mapping[str, int]:
  """The position of each storage's elements; checks that all are in the file."""
  positions = {}
  position = file.tell()
  end = file.seek(0, os.SEEK_END)
  for storage in storages:
    file.seek(position)
    header = file.read(8)
    size = struct.unpack('<q', header)[0] if len(header) == 8 else -1
    if size != storage.size:
      raise WeightsError(f'storage {storage.key}: {storage.size} elements expected, found {size}')
    positions[storage.key] = position + 8
    position += 8 + size * storage.element.itemsize
    if position > end:
      raise WeightsError(f'storage {storage.key}: the file ends within it')
  return positions


def load_state_dict(path: str | pathlib.Path) -> dict[str, np.ndarray]:
  """Reads a state dict: arrays by parameter name.

  Args:
    path: a file written by ``torch.save(model.state_dict(), path)``, or of a checkpoint with the
      key ``state_dict``. NumPy arrays in place of tensors are accepted.

  Raises:
    WeightsError: another format, a damaged file, contents other than arrays by name, or a file
      that would run code.
    OSError: the file can't be read.
  """
  with pathlib.Path(path).open('rb') as file:
    try:
      torch_file = open_torch(file)
      tensors = torch_file.contents
      if isinstance(tensors, dict) and isinstance(dict.get(tensors, 'state_dict'), dict):
        tensors = dict.get(tensors, 'state_dict')
      if not isinstance(tensors, dict):
        raise WeightsError(f'holds a {type(tensors).__name__}, not a state dict')
      # dict.items, because a pickle can give an OrderedDict an attribute named ``items``.
      return {str(name): _array(torch_file, name, value) for name, value in dict.items(tensors)}
    except PickleError as error:
      raise WeightsError(f'{path}: {error}') from None


def _array(file: TorchFile, name: Any, value: Any) -> np.ndarray:
  if type(value) is Tensor:
    return file.read(value)
  if type(value) is ArrayData:
    try:
      return value.array()
    except PickleError as error:
      raise WeightsError(f'{name!r}: {error}') from None
  raise WeightsError(f'{name!r} is not a tensor')
