"""Captions by video: ``{"id": ["caption", ...]}``, as JSON or as a pickle.

In place of the list of texts a video may have: one text; a list of lists of words, or of objects
with ``caption``; an object with the list under ``captions``; an object of texts by sentence id. A
file may also hold a list of objects as in JSON lines (``rows``). A file's name may hold its split,
as in train.json.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from vidcap_jax.annotations.files import read_json, read_pickle
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name
from vidcap_jax.annotations.rows import caption_texts, list_entries
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more JSON files.

  Raises:
    DataError: another form, or captions that are no texts.
  """
  for path in paths:
    annotations.add_file(path, entries(read_json(path), path))


def read_pickles(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more pickles, without running code that is in them; errors as ``read``."""
  for path in paths:
    annotations.add_file(path, entries(read_pickle(path), path))


def entries(data: Any, path: pathlib.Path) -> Iterator[Located]:
  """The entries of a file's contents."""
  if isinstance(data, list):
    yield from list_entries(data, path)
    return
  if not isinstance(data, dict):
    raise DataError(f'{path}: not captions by id, {{"id": ["caption", …]}}')
  split = split_in_name(path)
  # dict's own items: a pickle can give an OrderedDict an attribute of that name.
  for video_id, captions in dict.items(data):
    yield repr(video_id), Entry(video_id, _captions(captions), split)


def _captions(captions: Any) -> Any:
  if isinstance(captions, dict):
    captions = captions['captions'] if 'captions' in captions else list(dict.values(captions))
  return caption_texts(captions)
