"""Captions by video: ``{"id": ["caption", ...]}``, as JSON or as a pickle.

Of a video there may be, in place of the list of texts: one text; a list of lists of words, or of
objects with ``caption``; an object with the list under ``captions``; an object of texts by sentence
id. A file's name may say its split, as train.json does.
"""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from vidcap_jax.annotations.files import read_json, read_pickle
from vidcap_jax.annotations.model import Annotations, Entry, split_in_name
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads one or more JSON files.

  Raises:
    DataError: not such a file, or captions of no such kind.
  """
  return _read(paths, read_json)


def read_pickles(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads one or more pickles, without running code that is in them; errors as ``read``."""
  return _read(paths, read_pickle)


def _read(paths: Sequence[pathlib.Path], load: Callable[[pathlib.Path], Any]) -> Annotations:
  annotations = Annotations()
  for path in paths:
    data = load(path)
    if not isinstance(data, dict):
      raise DataError(f'{path}: not captions by id, {{"id": ["caption", …]}}')
    split = split_in_name(path)
    # dict's own items: a pickle can give an OrderedDict an attribute of that name.
    entries = ((repr(i), Entry(i, _captions(found), split)) for i, found in dict.items(data))
    annotations.read(path, entries)
  return annotations


def _captions(found: Any) -> Any:
  """A video's captions as texts; what is of no known kind as it is, to be refused."""
  if isinstance(found, dict):
    values = dict.values(found)
    found = found['captions'] if 'captions' in found else list(values)
  return [_caption(item) for item in found] if isinstance(found, list | tuple) else found


def _caption(item: Any) -> Any:
  if isinstance(item, dict):
    return item.get('caption')
  if isinstance(item, list | tuple) and all(isinstance(word, str) for word in item):
    return ' '.join(item)
  return item
