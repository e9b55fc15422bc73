"""Reads arrays from NumPy, pickle and PyTorch files; the first bytes determine the form.

No code in a file is run. Where the form allows it, only the requested array is read.
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
_TORCH = b'\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.'  # the pickled magic number
_PICKLE = (b'\x80', b'(', b'}', b'c')  # protocol 2 and later; older ones
_MAX_DEPTH = 8  # of nested dictionaries; stops at one that contains itself


def decode(file: BinaryIO) -> Arrays:
  """Finds the arrays in an open file, which must stay open while they are read.

  Returns:
    Name -> function that reads the array. A single array is named ''; arrays in nested dictionaries
    are named by their keys, joined with slashes.

  Raises:
    DataError: an empty file, or an unknown form.
    PickleError: the file would run code.
    Exception: of any type, for damaged files.
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
  # In a zip file a name may occur twice; NumPy would read only the last.
  if len(set(arrays.files)) < len(arrays.files):
    raise DataError('two arrays have the same name')
  return {name: _item(arrays, name) for name in arrays.files}


def _item(arrays, name: str) -> Callable[[], np.ndarray]:
  return lambda: arrays[name]


def _flat(contents: Any, torch_file: TorchFile | None) -> Arrays:
  """The leaves of nested dictionaries, by their path."""
  arrays: dict[str, Callable[[], np.ndarray]] = {}
  for path, value in _leaves(contents, ()):
    name = '/'.join(path)
    if name in arrays:
      raise DataError(f'two entries have the name {name!r}')
    arrays[name] = _leaf(value, torch_file)
  return arrays


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
  if not isinstance(value, dict):
    yield path, value
    return
  if len(path) == _MAX_DEPTH:
    raise DataError(f'dictionaries nested more than {_MAX_DEPTH} deep, at {"/".join(path)}')
  # dict.items, because a pickle can give an OrderedDict an attribute named ``items``.
  for key, inner in dict.items(value):
    yield from _leaves(inner, (*path, text_of(key)))


def text_of(key: Any) -> str:
  """A dictionary's key as a name; strings, UTF-8 bytes and whole numbers are allowed."""
  if isinstance(key, bytes):
    try:
      return key.decode()
    except UnicodeDecodeError:
      raise DataError(f'the key {key[:40]!r} is not UTF-8 text') from None
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
