"""Reads the pickled options of PyTorch projects, ``argparse.Namespace`` included, without code."""

import pathlib
from collections.abc import Mapping
from typing import Any

from vidcap_jax.errors import DataError
from vidcap_jax.features.plain_pickle import NAMES, PickleError, PlainUnpickler


class _Options:
  """Replaces ``argparse.Namespace``: its state in a pickle, a dictionary.

  A pickle sets attributes of objects and of classes by ``__setstate__`` where there is one, so that
  nothing else of this class can be changed.
  """

  __slots__ = ('state',)

  def __new__(cls):
    made = super().__new__(cls)
    made.state = {}
    return made

  def __setstate__(self, state):
    if type(state) is not dict or not all(type(key) is str for key in state):
      raise PickleError('malformed options')
    self.state = state


def _reconstruct(cls, *_):
  """Replaces ``copy_reg._reconstructor``, with which Python 2 makes objects."""
  if cls is not _Options:
    raise PickleError('a malformed object')
  return _Options()


class _Unpickler(PlainUnpickler):
  names: Mapping = {
    **NAMES,
    'copy_reg._reconstructor': _reconstruct,
    'copyreg._reconstructor': _reconstruct,
    # only an argument of _reconstructor
    '__builtin__.object': lambda *_: None,
    'builtins.object': lambda *_: None,
  }

  def find_class(self, module: str, name: str):
    if (module, name) == ('argparse', 'Namespace'):
      return _Options
    return super().find_class(module, name)


def load_options(path: str | pathlib.Path) -> dict[str, Any]:
  """Reads a pickled dictionary; each ``argparse.Namespace`` in it becomes a dictionary.

  Strings of Python 2 are read as Latin-1.

  Raises:
    DataError: no dictionary, a damaged file, or one that would run code.
    OSError: the file can't be read.
  """
  with pathlib.Path(path).open('rb') as file:
    if file.peek(2)[:2] == b'PK':
      raise DataError(f'{path}: a zip file, as PyTorch saves weights in, not a pickle of options')
    try:
      contents = _Unpickler(file, encoding='latin-1').load()
    except Exception as error:  # a damaged pickle raises almost anything
      raise DataError(f'{path}: not a readable pickle of options ({error})') from None
  if not isinstance(contents, dict):
    raise DataError(f'{path}: holds a {type(contents).__name__}, not a dictionary')
  options = dict.items(contents)
  return {key: value.state if type(value) is _Options else value for key, value in options}
