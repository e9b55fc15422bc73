"""Assigns videos to splits, by a split file or by the annotation itself."""

import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

from vidcap_jax.annotations import published
from vidcap_jax.annotations.files import parse_json, read_json, read_lines, read_table, read_text
from vidcap_jax.annotations.model import (
  AnnotatedVideo,
  Annotations,
  normalize_split,
  read_id,
  split_in_name,
)
from vidcap_jax.annotations.rows import ID_FIELDS, is_header
from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError, first_few


def choose(splits: str, annotations: Annotations, names: Mapping[str, str]) -> dict[str, list[str]]:
  """The splits that ``--splits`` names.

  Args:
    splits: a key of ``published.NUMBERED``, or comma-separated files (see ``read_splits``).
    annotations: as read.
    names: other names of videos, by id (see ``read_id_map``).

  Returns:
    split -> ids.

  Raises:
    DataError: as the functions it calls.
  """
  if splits in published.NUMBERED:
    return published.by_number(splits, annotations, names)
  lists = read_splits([splits] if pathlib.Path(splits).exists() else splits.split(','))
  return {split: as_annotated(ids, annotations.videos) for split, ids in lists.items()}


def as_annotated(ids: Sequence[str], annotated: Iterable[str]) -> list[str]:
  """Listed ids as the annotation has them: names of pictures may be listed without .jpg."""
  annotated = set(annotated)
  by_stem: dict[str, list[str]] = {}
  for name in annotated:
    if picture := re.fullmatch(r'(.+)\.(?:jpe?g|png|webp)', name, re.IGNORECASE):
      by_stem.setdefault(picture[1], []).append(name)
  return [
    by_stem[video_id][0]
    if video_id not in annotated and len(by_stem.get(video_id, ())) == 1
    else video_id
    for video_id in ids
  ]


def read_splits(paths: Iterable) -> dict[str, list[str]]:
  """Reads split files; split names are normalised.

  A .json file is an object ``{split: [ids]}``, or has it under ``videos`` with the numbers of ids
  like video5 (video-caption.pytorch's info.json). Any other file is a list of ids, and its name
  holds the split: a .csv with a header (an id may be in several rows), or text with an id a line
  or one JSON list.

  Raises:
    DataError: another form, two names for one split, or an id that is listed twice.
  """
  splits: dict[str, list[str]] = {}
  split_of: dict[str, str] = {}
  twice = []
  for path in map(pathlib.Path, paths):
    if not path.is_file():
      raise DataError(f'{path}: no such split file, nor one of {", ".join(published.NUMBERED)}')
    for name, ids in split_lists(path):
      try:
        split = normalize_split(name)
        if split in splits:
          raise DataError(f'split {split!r} occurs twice')
        splits[split] = [read_id(video_id) for video_id in ids]
      except DataError as error:
        raise DataError(f'{path}: split {name!r}: {error}') from None
      for video_id in splits[split]:
        if video_id in split_of:
          twice.append(f'{video_id} ({split_of[video_id]} and {split})')
        split_of[video_id] = split
  if twice:
    raise DataError(f'{path}: {counted(len(twice), "id")} listed twice: {first_few(twice)}', twice)
  return splits


def split_lists(path: pathlib.Path) -> list[tuple[str, list]]:
  """The lists of a split file, each with its split's name; names and ids are as written."""
  if path.suffix.lower() == '.json':
    data = read_json(path)
    if isinstance(data, dict) and 'ix_to_word' in data and isinstance(data.get('videos'), dict):
      data = {name: _numbered(ids) for name, ids in data['videos'].items()}
    if not isinstance(data, dict) or not all(isinstance(ids, list) for ids in data.values()):
      raise DataError(f'{path}: a split file is an object {{"train": [ids], "val": [ids], …}}')
    return list(data.items())
  split = split_in_name(path)
  if split is None:
    raise DataError(f'{path}: the name of a list of ids must hold its split, as train.txt')
  if path.suffix.lower() not in ('.csv', '.tsv'):
    return [(split, _lines(path))]
  ids: dict[str, None] = {}
  for where, row in read_table(path, [ID_FIELDS]):
    if isinstance(row, str):
      raise DataError(f'{path}: {where}: {row}')
    ids[next(row[name] for name in ID_FIELDS if name in row)] = None
  return [(split, list(ids))]


def _lines(path: pathlib.Path) -> list:
  """The ids in a text, one a line (below a header, if there is one), or as one JSON list."""
  if not read_text(path).lstrip().startswith('['):
    lines = [line for _, line in read_lines(path)]
    return lines[1:] if lines and is_header(lines[0]) else lines
  try:
    ids = parse_json(read_text(path))
  except ValueError as error:
    raise DataError(f'{path}: not a JSON list, though it begins like one: {error}') from None
  if not isinstance(ids, list):
    raise DataError(f'{path}: not a JSON list of ids')
  return ids


def _numbered(ids):
  if not isinstance(ids, list):
    return ids
  return [f'video{n}' if type(n) is int else n for n in ids]


def read_id_map(path) -> dict[str, str]:
  """Reads other names of videos: lines ``other_name id``, as in MSVD's youtube_mapping.txt.

  Returns:
    name -> other name, in both directions, as either may be the annotation's.

  Raises:
    DataError: another form, or a name with two other names.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise DataError(f'{path}: no such id map')
  names: dict[str, str] = {}
  for where, line in read_lines(path):
    pair = line.split()
    if len(pair) != 2:
      raise DataError(f'{path}: {where}: not "other_name id": {line[:60]!r}')
    for name, other in (pair, pair[::-1]):
      if names.setdefault(name, other) != other:
        raise DataError(f'{path}: {where}: {name!r} has two other names')
  return names


def assign(
  annotations: Annotations,
  listed: Mapping[str, list[str]] | None = None,
  everything: str | None = None,
) -> tuple[dict[str, list[AnnotatedVideo]], list[AnnotatedVideo]]:
  """Assigns the videos to splits, each in the order of the annotation.

  Args:
    annotations: as read.
    listed: split -> ids, in place of the annotation's own splits. Listed videos that are not
      annotated come last in their split, without captions.
    everything: the name of one split for all videos, in place of both.

  Returns:
    split -> videos; and the videos that are in no split.

  Raises:
    DataError: no video has a split, or none of the listed ids is annotated.
  """
  videos = annotations.videos
  if everything is not None:
    return {normalize_split(everything): list(videos.values())}, []
  if listed is None:
    split_of = {v.video_id: v.split for v in videos.values() if v.split is not None}
    if annotations.undecided or not split_of:
      raise DataError(
        f'{annotations.undecided or "the annotation names no splits"}; give a split file with '
        f'--splits=FILE, published ones with --splits={"|".join(published.NUMBERED)}, '
        'or put all videos into one with --split=train (or test)'
      )
    names = list(dict.fromkeys(split_of.values()))
  else:
    split_of = {video_id: split for split, ids in listed.items() for video_id in ids}
    names = list(listed)
    if split_of and not split_of.keys() & videos.keys():
      raise DataError(
        'no video of the split file is in the annotation: '
        f'{three(split_of)} in the split file, {three(videos)} in the annotation'
      )
  splits: dict[str, list[AnnotatedVideo]] = {name: [] for name in names}
  unassigned = []
  for video in videos.values():
    if split := split_of.get(video.video_id):
      splits[split].append(video)
    else:
      unassigned.append(video)
  for video_id, split in split_of.items():
    if video_id not in videos:
      splits[split].append(AnnotatedVideo(video_id))
  return splits, unassigned


def shared_sources(videos: Mapping[str, list[AnnotatedVideo]]) -> list[str]:
  """A note on sources that have clips in several splits, or no note if there are none."""
  splits: dict[str, set[str]] = {}
  for split, part in videos.items():
    for video in part:
      if video.source:
        splits.setdefault(video.source, set()).add(split)
  shared = [source for source, names in splits.items() if len(names) > 1]
  if not shared:
    return []
  where = ' and '.join(split for split in videos if split in splits[shared[0]])
  return [f'{len(shared)} sources have clips in several splits (first: {shared[0]}, in {where})']


def three(ids) -> str:
  """The first three ids, for messages."""
  ids = list(ids)
  return ', '.join(repr(i) for i in ids[:3]) + (', …' if len(ids) > 3 else '')
