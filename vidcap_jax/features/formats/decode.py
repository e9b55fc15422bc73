"""The arrays in a file or a record, told by its first bytes: NumPy, pickle or PyTorch.

No code in them is run, and none but the array asked for is read where the form allows it.
"""

import zipfile
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.reader import Arrays
from vidcap_jax.features.plain_pickle import ArrayData, load_plain
from vidcap_jax.features.torch_pickle import Tensor, TorchFile, open_torch

SUFFIXES = ('.npy', '.npz', '.pkl', '.pickle', '.pth', '.pt')

_NPY = b'\x93NUMPY'
_ZIP = b'PK\x03\x04'
_TORCH = b'\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.'  # Its pickled magic number.
_PICKLE = (b'\x80', b'(', b'}', b'c')  # Of protocol 2 on; of the older ones.
_DEPTH = 8  # Deepest nesting of dictionaries; one that holds itself ends here.


def decode(file: BinaryIO) -> Arrays:
  """Finds the arrays in an open file, which must stay open while they are read.

  Returns:
    Name -> what reads it. A lone array is named '', those of nested dictionaries by their keys
    with slashes between.

  Raises:
    DataError: empty, or of no known form.
    PickleError: it asks for code to be run. Damaged files may raise anything.
  """
  start = file.read(len(_TORCH))
  file.seek(0)
  if not start:
    raise DataError('empty file (0 bytes)')
  if start.startswith(_NPY):
    return {'': lambda: _npy(file)}
  if start.startswith(_ZIP):
    with zipfile.ZipFile(file) as archive:
      is_torch = any(name.rpartition('/')[2] == 'data.pkl' for name in archive.namelist())
    file.seek(0)
    if not is_torch:
      return _npz(file)
  if start.startswith((_ZIP, _TORCH)):
    torch_file = open_torch(file)
    return _flat(torch_file.contents, torch_file)
  if start.startswith(_PICKLE):
    return _flat(load_plain(file), None)
  raise DataError('not a NumPy, pickle or PyTorch file')


def _npy(file: BinaryIO) -> np.ndarray:
  array = np.lib.format.read_array(file, allow_pickle=False)
  if file.read(1):
    raise DataError('more bytes than its header says; truncated or damaged')
  return array


def _npz(file: BinaryIO) -> Arrays:
  arrays = np.load(file, allow_pickle=False)
  # A name may stand in a zip file twice: only the last would be seen.
  if len(set(arrays.files)) < len(arrays.files):
    raise DataError('two arrays of one name')
  return {name: _item(arrays, name) for name in arrays.files}


def _item(arrays, name: str) -> Callable[[], np.ndarray]:
  return lambda: arrays[name]


def _flat(contents: Any, torch_file: TorchFile | None) -> Arrays:
  """The leaves of nested dictionaries by path."""
  found: dict[str, Callable[[], np.ndarray]] = {}
  for path, value in _leaves(contents, ()):
    name = '/'.join(path)
    if name in found:
      raise DataError(f'two entries of the name {name!r}')
    found[name] = _leaf(value, torch_file)
  return found


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
  if not isinstance(value, dict):
    yield path, value
    return
  if len(path) == _DEPTH:
    raise DataError(f'dictionaries nested more than {_DEPTH} deep, at {"/".join(path)}')
  # dict's own items: a pickle can give an OrderedDict an attribute of that name.
  for key, inner in dict.items(value):
    yield from _leaves(inner, (*path, text_of(key)))


def text_of(key: Any) -> str:
  """A dictionary's key as a name: texts, UTF-8 bytes and whole numbers are names."""
  if isinstance(key, bytes):
    try:
      return key.decode()
    except UnicodeDecodeError:
      raise DataError(f'the key {key[:40]!r} is no UTF-8 text') from None
  if isinstance(key, str) or type(key) is int:
    return str(key)
  raise DataError(f'a key is {key!r}'[:60] + ', not a text')


def _leaf(value: Any, torch_file: TorchFile | None) -> Callable[[], np.ndarray]:
  def read() -> np.ndarray:
    if isinstance(value, Tensor) and torch_file:
      return torch_file.read(value)
    if isinstance(value, ArrayData):
      return value.array()
    if isinstance(value, (list, tuple)):
      return np.array([_leaf(item, torch_file)() for item in value])
    if isinstance(value, (bool, int, float)):
      return np.array(value)
    raise DataError(f'it is a {type(value).__name__}, not an array')

  return read
