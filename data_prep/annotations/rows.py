"""One's own data: JSON lines, or CSV with a header; a row is a video id with a caption.

Fields, by any of their names: the id (``video_id``, ``video``, ``id``), the caption (``caption``,
``sentence``; in JSON also ``captions``, and a list of captions), and optionally ``split`` and
``category`` (a number). A video may have any number of rows. A row with an empty caption names a
video; a video without captions can be captioned, not trained on.
"""

import csv
import io
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from data_prep.annotations.model import Annotations, malformed, read_text
from vidcap_jax.data.schema import DataError

ID_FIELDS = ('video_id', 'video', 'id')
CAPTION_FIELDS = ('caption', 'sentence', 'captions')


def read_jsonl(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads files of one JSON object a line.

  Raises:
    DataError: lines that are not such objects, named by number.
  """
  annotations = Annotations()
  for path in paths:
    rows, problems = [], []
    for number, line in enumerate(read_text(path).split('\n'), 1):
      if not line.strip():
        continue
      try:
        row = json.loads(line)
      except (ValueError, RecursionError) as error:
        problems.append((f'line {number}', f'not JSON: {error}'))
        continue
      if isinstance(row, dict):
        rows.append((f'line {number}', row))
      else:
        problems.append((f'line {number}', 'not a JSON object'))
    _add_rows(path, rows, problems, annotations)
  return annotations


def read_csv(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads comma-separated files with a header (tab-separated ones, if called .tsv).

  Raises:
    DataError: no usable header, or rows with too few or too many fields, named by line.
  """
  annotations = Annotations()
  for path in paths:
    delimiter = '\t' if path.suffix.lower() == '.tsv' else ','
    reader = csv.DictReader(
      io.StringIO(read_text(path), newline=''), delimiter=delimiter, strict=True
    )
    try:
      header = [(name or '').strip() for name in reader.fieldnames or ()]
      reader.fieldnames = header
      _check_header(path, header)
      rows, problems = [], []
      for row in reader:
        where = f'line {reader.line_num}'
        if None in row or None in row.values():
          problems.append((where, f'not {len(header)} fields, as the header has'))
        else:
          rows.append((where, row))
    except csv.Error as error:
      raise DataError(f'{path}: line {reader.line_num + 1}: not CSV: {error}') from None
    _add_rows(path, rows, problems, annotations)
  return annotations


def _check_header(path: pathlib.Path, header: Sequence[str]) -> None:
  for fields in (ID_FIELDS, CAPTION_FIELDS[:2]):
    if not set(fields) & set(header):
      raise DataError(
        f'{path}: the first line must name the columns, one of them {" or ".join(fields)}; '
        f'found: {", ".join(header) or "nothing"}'
      )
  if len(set(header)) != len(header):
    raise DataError(f'{path}: a column name is there twice: {", ".join(header)}')


def _add_rows(
  path: pathlib.Path,
  rows: Iterable[tuple[str, Mapping]],
  problems: list[tuple[str, str]],
  annotations: Annotations,
) -> None:
  for where, row in rows:
    video_id = next((row[f] for f in ID_FIELDS if f in row), None)
    captions = next((row[f] for f in CAPTION_FIELDS if f in row), None)
    split, category = row.get('split'), row.get('category')
    if type(video_id) is int:  # Ids that are numbers, in JSON.
      video_id = str(video_id)
    if not isinstance(video_id, str) or not video_id.strip():
      problems.append((where, f'no id; give one as {" or ".join(ID_FIELDS)}'))
      continue
    video_id = video_id.strip()
    if captions is None:
      captions = []
    elif isinstance(captions, str):
      captions = [captions]
    if not isinstance(captions, list) or not all(isinstance(c, str) for c in captions):
      problems.append((where, f'captions of {video_id!r} are neither a text nor a list of texts'))
      continue
    video = annotations.video(video_id)
    for caption in captions:
      annotations.add_caption(video_id, caption)
    if split not in (None, ''):
      if isinstance(split, str):
        annotations.set_split(video_id, split, f'{path}: {where}')
      else:
        problems.append((where, f'"split" is {split!r}, not a name'))
    if category not in (None, ''):
      number = _category(category)
      if number is None:
        problems.append((where, f'"category" is {category!r}, not a number from 0 on'))
      else:
        video.category = number
  if problems:
    raise malformed(path, problems)


def _category(value) -> int | None:
  if type(value) is int and 0 <= value < 2**31:
    return value
  if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
    return _category(int(value)) if len(value) < 12 else None
  return None
