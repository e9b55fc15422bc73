"""Reads captions files of every form that people have."""

import contextlib
import csv
import dataclasses
import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.split_names import usual_name
from vidcap_jax.errors import DataError

FORMS = """accepted files:
  .json   {id: caption}, {id: [captions]}, a list of objects with an id (video_id, image_id,
          videoID or id) and caption or captions (so the captions.json of an evaluation), a server
          submission, an official MSR-VTT annotation or a COCO annotation; any of these as the
          'predictions' of an object, with scores or settings beside them
  .jsonl  one such object a line
  .csv    with a header that names an id column and caption
  .txt    id, tab, caption (the S2VT form of MSVD); .tsv likewise
A split may be named by the references themselves (MSR-VTT, or a split field or column);
val stands for validate, dev, … where a file says it so.
References may also be the folder of a data set, with a split.
"""

ID_KEYS = ('video_id', 'image_id', 'videoID', 'id')


@dataclasses.dataclass(frozen=True)
class Entry:
  """Some captions of one video, as one place of a file gives them."""

  video_id: str
  captions: tuple[str, ...]
  split: str | None = None


def read_hypotheses(path: str | pathlib.Path) -> dict[str, str]:
  """Reads one caption per video.

  Raises:
    DataError: a video named twice or with several captions, or a file of no known form.
  """
  entries = _read(pathlib.Path(path))
  counts = Counter(e.video_id for e in entries)
  twice = [v for v, count in counts.items() if count > 1]
  if twice:
    raise DataError(f'{path}: {len(twice)} ids are named more than once: {_some(twice)}')
  several = [e.video_id for e in entries if len(e.captions) != 1]
  if several:
    raise DataError(
      f'{path}: {len(several)} videos do not have exactly one caption: {_some(several)}'
    )
  return {e.video_id: e.captions[0] for e in entries}


def read_references(
  path: str | pathlib.Path,
  split: str | None = None,
  splits: str | pathlib.Path | None = None,
) -> dict[str, list[str]]:
  """Reads all captions of every video, or of one split's videos.

  Args:
    path: of any form in ``FORMS``, or a data set's folder.
    split: keep this split only, however it is spelled there; by default everything.
    splits: json ``{split: [ids]}``, in place of the splits that the file itself names.

  Raises:
    DataError: no such split, ids in it that the file lacks, a file of no known form, or a folder
      that is no data set, or a damaged one.
  """
  if pathlib.Path(path).is_dir():
    return _of_data_set(path, split, splits)
  entries = _read(pathlib.Path(path))
  if splits is not None:
    if split is None:
      raise DataError('a splits file was given but no split was named')
    return _pick(entries, path, split, splits)
  if split is not None:
    named = sorted({e.split for e in entries if e.split is not None})
    if not (meant := _meant(split, named)):
      raise DataError(f'{path} has no split {split!r}; it names: {", ".join(named) or "none"}')
    entries = [e for e in entries if e.split in meant]
  return _merge(entries)


def _of_data_set(path, split, splits) -> dict[str, list[str]]:
  have = read_manifest(path).splits
  if splits is not None:
    raise DataError(f'{path} is a data set, which has splits of its own: leave the splits file out')
  meant = _meant(split, have) if split else []
  if not meant:
    raise DataError(f'{path} is a data set: name one of its splits, {", ".join(have)}')
  return {v.video_id: list(v.captions) for name in meant for v in open_split(path, name)}


def _pick(entries, path, split, splits) -> dict[str, list[str]]:
  splits = pathlib.Path(splits)
  with _readable(splits):
    table = _parse_json(splits)
  if not isinstance(table, dict) or not (meant := _meant(split, table)):
    have = ', '.join(table) if isinstance(table, dict) else 'not a json object'
    raise DataError(f'{splits} has no split {split!r}; it has: {have}')
  merged = _merge(entries)
  ids = [str(v) for name in meant for v in _list(table, name, splits)]
  lacking = [v for v in ids if v not in merged]
  if lacking:
    raise DataError(
      f'{path} lacks {len(lacking)} of the {len(ids)} videos of split {split!r}: {_some(lacking)}'
    )
  return {v: merged[v] for v in ids}


def _meant(split: str, names: Iterable[str]) -> list[str]:
  """Which of the names are the split: it itself, or else its other spellings."""
  names = list(names)
  return [split] if split in names else [n for n in names if usual_name(n) == usual_name(split)]


def _merge(entries: Iterable[Entry]) -> dict[str, list[str]]:
  merged: dict[str, list[str]] = {}
  for entry in entries:
    merged.setdefault(entry.video_id, []).extend(entry.captions)
  return merged


def _read(path: pathlib.Path) -> list[Entry]:
  readers = {
    '.json': lambda: _from_json(_parse_json(path), path),
    '.jsonl': lambda: _from_lines(path),
    '.csv': lambda: _from_csv(path),
    '.txt': lambda: _from_tabs(path),
    '.tsv': lambda: _from_tabs(path),
  }
  if path.suffix not in readers:
    raise DataError(f'{path}: unknown kind of captions file; known: {", ".join(readers)}')
  with _readable(path):
    entries = list(readers[path.suffix]())
  if not entries:
    raise DataError(f'{path} holds no captions')
  return entries


@contextlib.contextmanager
def _readable(path: pathlib.Path) -> Iterator[None]:
  try:
    yield
  except UnicodeDecodeError as error:
    raise DataError(f'{path} is not UTF-8 text: {error}') from error
  except csv.Error as error:
    raise DataError(f'{path} is not CSV: {error}') from error
  except OSError as error:
    raise DataError(f'{path}: {error.strerror}') from None


def _parse_json(path: pathlib.Path):
  with path.open(encoding='utf-8-sig') as file:
    return _loads(file.read(), str(path))


def _loads(text: str, where: str):
  def once(pairs):
    data = dict(pairs)
    if len(data) != len(pairs):
      twice = [k for k, count in Counter(k for k, _ in pairs).items() if count > 1]
      raise DataError(f'{where}: {len(twice)} keys appear more than once: {_some(twice)}')
    return data

  try:
    return json.loads(text, object_pairs_hook=once)
  except json.JSONDecodeError as error:
    raise DataError(f'{where} is not JSON: {error}') from error


def _from_json(data, path: pathlib.Path) -> Iterator[Entry]:
  if isinstance(data, list):
    for number, item in enumerate(data):
      yield _entry(item, f'{path}, item {number}')
  elif not isinstance(data, dict):
    raise DataError(f'{path}: expected a json object or list')
  elif isinstance(data.get('sentences'), list):  # MSR-VTT
    splits = {}
    for number, video in enumerate(_list(data, 'videos', path)):
      where = f'{path}, video {number}'
      video_id = _id(video, where, ('video_id',))
      splits[video_id] = _split(video, where)
    for video_id, split in splits.items():
      yield Entry(video_id, (), split)
    for number, item in enumerate(data['sentences']):
      entry = _entry(item, f'{path}, sentence {number}')
      yield dataclasses.replace(entry, split=splits.get(entry.video_id))
  elif isinstance(data.get('annotations'), list):  # COCO
    for number, image in enumerate(_list(data, 'images', path)):
      yield Entry(_id(image, f'{path}, image {number}', ('id',)), ())
    for number, item in enumerate(data['annotations']):
      yield _entry(item, f'{path}, annotation {number}')
  elif isinstance(data.get('result'), list) and 'version' in data:  # MSR-VTT submission
    for number, item in enumerate(data['result']):
      yield _entry(item, f'{path}, result {number}')
  elif _is_captions(data.get('predictions')):
    yield from _from_json(data['predictions'], path)
  else:
    for video_id, captions in data.items():
      yield Entry(video_id, _texts(captions, f'{path}, {video_id}'))


def _is_captions(data) -> bool:
  """Whether it names videos itself; what a video named 'predictions' has does not."""
  if isinstance(data, list):
    return bool(data) and all(isinstance(d, dict) and any(k in d for k in ID_KEYS) for d in data)
  return isinstance(data, dict)


def _from_lines(path: pathlib.Path) -> Iterator[Entry]:
  with path.open(encoding='utf-8-sig') as file:
    for number, line in enumerate(file, 1):
      if line.strip():
        where = f'{path}, line {number}'
        yield _entry(_loads(line, where), where)


def _from_csv(path: pathlib.Path) -> Iterator[Entry]:
  with path.open(encoding='utf-8-sig', newline='') as file:
    reader = csv.DictReader(file)
    for number, row in enumerate(reader, 1):
      if None in row or None in row.values():
        raise DataError(
          f'{path}, row {number}: not the {len(reader.fieldnames or ())} fields of its first line; '
          'a caption with commas needs quotes'
        )
      yield _entry(row, f'{path}, row {number}')


def _from_tabs(path: pathlib.Path) -> Iterator[Entry]:
  with path.open(encoding='utf-8-sig') as file:
    for number, line in enumerate(file, 1):
      if not line.strip():
        continue
      video_id, tab, caption = line.rstrip('\n').partition('\t')
      if not tab:
        raise DataError(f'{path}, line {number}: expected id, tab, caption')
      yield Entry(video_id, (caption,))


def _entry(item, where: str) -> Entry:
  video_id = _id(item, where)
  captions = item.get('caption', item.get('captions'))
  if captions is None:
    raise DataError(f'{where}: no caption')
  return Entry(video_id, _texts(captions, where), _split(item, where))


def _id(item, where: str, keys: Sequence[str] = ID_KEYS) -> str:
  value = next((item[k] for k in keys if k in item), None) if isinstance(item, dict) else None
  if value in ('', None):
    wanted = f'one of {", ".join(keys)}' if len(keys) > 1 else keys[0]
    found = f'; it has: {", ".join(map(str, item))}' if isinstance(item, dict) else ''
    raise DataError(f'{where}: no id ({wanted}){found}')
  if not isinstance(value, str | int | float):
    raise DataError(f'{where}: the id {value!r} is neither a text nor a number')
  return str(value)


def _split(item: Mapping, where: str) -> str | None:
  split = item.get('split') or None
  if not isinstance(split, str | None):
    raise DataError(f'{where}: split is {split!r}, not a name')
  return split


def _list(data: Mapping, key: str, path: pathlib.Path) -> list:
  found = data.get(key, [])
  if not isinstance(found, list):
    raise DataError(f'{path}: expected a list under {key!r}, got {type(found).__name__}')
  return found


def _texts(captions, where: str) -> tuple[str, ...]:
  if isinstance(captions, str):
    return (captions,)
  if isinstance(captions, list):
    # pycocoevalcap's own form wraps each caption: [{'caption': …}]
    unwrapped = [c.get('caption') if isinstance(c, dict) else c for c in captions]
    texts = tuple(c for c in unwrapped if isinstance(c, str))
    if len(texts) == len(captions):
      return texts
  raise DataError(f'{where}: expected a caption or a list of captions')


def _some(ids: list) -> str:
  return ', '.join(str(i) for i in ids[:5]) + (', …' if len(ids) > 5 else '')
