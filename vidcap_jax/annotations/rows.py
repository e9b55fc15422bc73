"""One's own data: JSON lines, or CSV with a header; a row is a video id with a caption.

Fields, by any of their names: the id (``video_id``, ``video``, ``id``, the first of them that is
there), the caption (``caption``, ``sentence``; in JSON also ``captions``, and a list of captions),
and optionally ``split``, ``category`` (a number) and ``source``. Rows without the field ``split``
are in the one that the file's name says, as train.jsonl does. A video may have any number of rows.
A row with an empty caption names a video; a video without captions can be captioned, not trained
on.
"""

import difflib
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from vidcap_jax.annotations.files import parse_json, read_lines, read_table
from vidcap_jax.annotations.model import Annotations, Entry, split_in_name

ID_FIELDS = ('video_id', 'video', 'id')
CAPTION_FIELDS = ('caption', 'sentence', 'captions')


def read_jsonl(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads files of one JSON object a line.

  Raises:
    DataError: lines that are not such objects, named by number.
  """
  annotations = Annotations()
  for path in paths:
    annotations.read(path, _json_entries(path))
  return annotations


def read_csv(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads comma-separated files with a header (tab-separated ones, if called .tsv).

  Raises:
    DataError: no usable header, or rows with too few or too many fields, named by line.
  """
  annotations = Annotations()
  for path in paths:
    table = read_table(path, (ID_FIELDS, CAPTION_FIELDS[:2]))
    annotations.read(path, ((where, _entry(row, path)) for where, row in table))
  return annotations


def _json_entries(path: pathlib.Path) -> Iterator[tuple[str, Entry | str]]:
  for where, line in read_lines(path):
    try:
      row = parse_json(line)
    except ValueError as error:
      yield where, f'not JSON: {error}'
    else:
      yield where, _entry(row if isinstance(row, dict) else 'not a JSON object', path)


def _entry(row: Mapping | str, path: pathlib.Path) -> Entry | str:
  if isinstance(row, str):  # What is wrong there.
    return row
  ids = [row[f] for f in ID_FIELDS if f in row]
  captions = [f for f in CAPTION_FIELDS if f in row]
  if not ids:
    return f'no id; give one as {" or ".join(ID_FIELDS)}'
  if len(captions) > 1:
    return f'captions under {" and ".join(captions)}; which of them are meant?'
  if not captions:  # a video without references, unless the key is misspelled
    for key in row:
      if key and difflib.get_close_matches(key, CAPTION_FIELDS, cutoff=0.85):
        return f'no caption, but {key!r}; give captions as {" or ".join(CAPTION_FIELDS)}'
  caption = row[captions[0]] if captions else None
  return Entry(
    ids[0], caption, row.get('split', split_in_name(path)), row.get('category'), row.get('source')
  )
