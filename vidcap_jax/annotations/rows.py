r"""Captions one row each: JSON lines, a table with a header, or lines ``id\tcaption``.

Fields, by any of their names: the id (``ID_FIELDS``, the first of them that is there), the caption
(``CAPTION_FIELDS``; in JSON also a list of captions), and optionally ``split``, ``category`` (a
number) and ``source``. Rows without the field ``split`` are in the split that the file's name
holds, as in train.jsonl. A video may have any number of rows; its split needs to be in only one.
A row with an empty caption names a video; a video without captions can be captioned, not trained
on.
"""

import difflib
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vidcap_jax.annotations import flickr
from vidcap_jax.annotations.files import parse_json, read_lines, read_table
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name
from vidcap_jax.data.split_names import SPELLINGS
from vidcap_jax.errors import DataError

# 'id' comes last: beside another of them it is the number of the caption.
ID_FIELDS = ('video_id', 'video', 'image_id', 'videoID', 'id')
CAPTION_FIELDS = ('caption', 'sentence', 'captions')


def read_jsonl(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads files of one JSON object a line.

  Raises:
    DataError: lines that are not such objects, named by number.
  """
  for path in paths:
    annotations.add_file(path, jsonl_entries(path))


def read_csv(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads comma-separated files with a header (tab-separated ones, if called .tsv).

  Raises:
    DataError: no usable header, or rows with too few or too many fields, named by line; a file of
      Flickr8k's form.
  """
  for path in paths:
    if flickr.is_flickr(next((line for _, line in read_lines(path)), '')):
      raise DataError(f'{path}: pictures and captions as in Flickr8k; read them by --format=flickr')
    annotations.add_file(path, table_entries(path))


def jsonl_entries(path: pathlib.Path) -> Iterator[Located]:
  """The entries of a file of one JSON object a line."""
  for where, line in read_lines(path):
    try:
      row = parse_json(line)
    except ValueError as error:
      yield where, f'not JSON: {error}'
    else:
      yield where, _entry(row, path)


def list_entries(items: Iterable, path: pathlib.Path) -> Iterator[Located]:
  """The entries of a JSON list of such objects."""
  for i, item in enumerate(items):
    yield f'[{i}]', _entry(item, path)


def table_entries(path: pathlib.Path, delimiter: str | None = None) -> Iterator[Located]:
  """The entries of a table with a header; see ``read_table``."""
  for where, row in read_table(path, (ID_FIELDS, CAPTION_FIELDS), delimiter):
    yield where, row if isinstance(row, str) else _entry(row, path)


def tab_entries(path: pathlib.Path) -> Iterator[Located]:
  r"""The entries of lines ``id\tcaption``, or of a tab-separated table if line 1 is a header.

  Lines are not quoted, and further tabs are white space of the caption.
  """
  lines = list(read_lines(path))
  if lines and is_header(lines[0][1]):
    yield from table_entries(path, '\t')
    return
  split = split_in_name(path)
  for where, line in lines:
    video_id, tab, caption = line.partition('\t')
    if not tab or not video_id.strip():
      yield where, f'not "id<TAB>caption": {line[:60]!r}'
    elif caption.rpartition('\t')[2].strip().lower() in SPELLINGS and '\t' in caption:
      yield where, 'a third field that names a split needs a header: id<TAB>caption<TAB>split'
    else:
      yield where, Entry(video_id, caption, split)


def is_header(line: str) -> bool:
  """Whether a tab-separated line names columns: its first field, or any two, are such names."""
  names = [name.strip().casefold() for name in line.split('\t')]
  ids = {field.casefold() for field in ID_FIELDS}
  return names[0] in ids or bool(ids & {*names} and {*CAPTION_FIELDS} & {*names})


def _entry(row, path: pathlib.Path) -> Entry | str:
  """A row's entry, or what is wrong with it."""
  if not isinstance(row, Mapping):
    return 'not a JSON object'
  ids = [row[field] for field in ID_FIELDS if field in row]
  if not ids:
    return f'no id; give one as {" or ".join(ID_FIELDS)}'
  fields = [field for field in CAPTION_FIELDS if field in row]
  if fields == ['caption', 'captions'] and _are_candidates(row['captions']):
    fields = ['caption']
  if len(fields) > 1:
    return f'captions under {" and ".join(fields)}; give one of them'
  if not fields:  # a video without references, unless the key is misspelled
    for key in row:
      if key and difflib.get_close_matches(key, CAPTION_FIELDS, cutoff=0.85):
        return f'no caption, but {key!r}; give captions as {" or ".join(CAPTION_FIELDS)}'
  captions = caption_texts(row[fields[0]]) if fields else None
  return Entry(
    ids[0], captions, row.get('split', split_in_name(path)), row.get('category'), row.get('source')
  )


def _are_candidates(captions) -> bool:
  """Whether these are decoded candidates beside the best ``caption``, as evaluations write."""
  return isinstance(captions, list) and all(isinstance(c, Mapping) for c in captions)


def caption_texts(captions: Any) -> Any:
  """A list of captions as texts: each is a text, an object with ``caption``, or a list of words.

  Anything else is returned as it is, for ``Annotations`` to refuse.
  """
  return [_text(item) for item in captions] if isinstance(captions, list | tuple) else captions


def _text(item: Any) -> Any:
  if isinstance(item, dict):
    return item.get('caption')
  if isinstance(item, list | tuple) and all(isinstance(word, str) for word in item):
    return ' '.join(item)
  return item
