"""MSR-VTT's official JSON: ``{"videos": [...], "sentences": [...]}``.

A video has ``video_id`` and, where known, ``split`` and ``category``; a sentence has ``video_id``
and ``caption``. The official test file has no sentences, which is fine.
"""

import json
import pathlib
from collections.abc import Sequence

from data_prep.annotations.model import Annotations, malformed, read_text
from vidcap_jax.data.schema import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads one or more files (train_val and test, say).

  Raises:
    DataError: not JSON, or an entry without what it needs; the entry is named.
  """
  annotations = Annotations()
  for path in paths:
    _read_file(path, annotations)
  return annotations


def _read_file(path: pathlib.Path, annotations: Annotations) -> None:
  try:
    data = json.loads(read_text(path))
  except (ValueError, RecursionError) as error:
    if isinstance(error, DataError):
      raise
    raise DataError(f'{path}: not a JSON file: {error}') from None
  if not isinstance(data, dict) or not isinstance(data.get('videos'), list):
    raise DataError(f'{path}: not an MSR-VTT file: it needs an object with a list "videos"')
  sentences = data.get('sentences', [])
  if not isinstance(sentences, list):
    raise DataError(f'{path}: "sentences" is not a list')

  problems = []
  for i, entry in enumerate(data['videos']):
    where = f'videos[{i}]'
    if problem := _missing(entry, 'video_id'):
      problems.append((where, problem))
      continue
    video = annotations.video(entry['video_id'])
    split, category = entry.get('split'), entry.get('category')
    if split is not None:
      if isinstance(split, str):
        annotations.set_split(video.video_id, split, f'{path}: {where}')
      else:
        problems.append((where, f'"split" is {split!r}, not a name'))
    if category is not None:
      if type(category) is int and category >= 0:
        video.category = category
      else:
        problems.append((where, f'"category" is {category!r}, not a number from 0 on'))
  for i, entry in enumerate(sentences):
    if problem := _missing(entry, 'video_id', 'caption'):
      problems.append((f'sentences[{i}]', problem))
    else:
      annotations.add_caption(entry['video_id'], entry['caption'])
  if problems:
    raise malformed(path, problems)


def _missing(entry, *keys: str) -> str | None:
  if not isinstance(entry, dict):
    return 'not an object'
  for key in keys:
    if not isinstance(entry.get(key), str):
      return f'no text under "{key}"'
  return None if entry['video_id'].strip() else 'empty "video_id"'
