"""Which video belongs to which split: from a split file, or from the annotation itself."""

import json
import pathlib
from collections.abc import Mapping

from data_prep.annotations.model import AnnotatedVideo, Annotations, normalize_split, read_text
from vidcap_jax.data.schema import DataError


def read_splits(path) -> dict[str, list[str]]:
  """Reads a split file, JSON ``{split: [ids]}``; split names are normalised.

  Raises:
    DataError: another form, two names for one split, or an id that is listed twice.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise DataError(f'{path}: no such split file')
  try:
    data = json.loads(read_text(path))
  except (ValueError, RecursionError) as error:
    if isinstance(error, DataError):
      raise
    raise DataError(f'{path}: not a JSON file: {error}') from None
  if not isinstance(data, dict) or not all(isinstance(ids, list) for ids in data.values()):
    raise DataError(f'{path}: a split file is an object {{"train": [ids], "val": [ids], …}}')
  splits: dict[str, list[str]] = {}
  seen: dict[str, str] = {}
  twice = []
  for name, ids in data.items():
    split = normalize_split(name, str(path))
    if split in splits:
      raise DataError(f'{path}: split {split!r} is there twice, under different spellings')
    splits[split] = []
    for video_id in ids:
      video_id = str(video_id) if type(video_id) is int else video_id
      if not isinstance(video_id, str) or not video_id.strip():
        raise DataError(f'{path}: split {name!r}: {video_id!r} is not a video id')
      video_id = video_id.strip()
      if video_id in seen:
        twice.append(f'{video_id} ({seen[video_id]} and {split})')
      seen[video_id] = split
      splits[split].append(video_id)
  if twice:
    more = f' and {len(twice) - 5} more' if len(twice) > 5 else ''
    raise DataError(f'{path}: ids listed twice: {", ".join(twice[:5])}{more}')
  return splits


def read_id_map(path) -> dict[str, str]:
  """Reads other names of videos: lines ``other_name id``, as MSVD's youtube_mapping.txt has them.

  Returns:
    id -> other name.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise DataError(f'{path}: no such id map')
  names: dict[str, str] = {}
  for number, line in enumerate(read_text(path).splitlines(), 1):
    parts = line.split()
    if not parts:
      continue
    if len(parts) != 2:
      raise DataError(f'{path}: line {number}: not "other_name id": {line[:60]!r}')
    other, video_id = parts
    if names.setdefault(video_id, other) != other:
      raise DataError(f'{path}: line {number}: {video_id!r} has two names')
  return names


def assign(
  annotations: Annotations,
  listed: Mapping[str, list[str]] | None = None,
  everything: str | None = None,
) -> tuple[dict[str, list[AnnotatedVideo]], list[AnnotatedVideo]]:
  """Sorts the videos into splits, each in the order of the annotation.

  Args:
    annotations: as read.
    listed: split -> ids, instead of the annotation's own splits. Listed videos that are not
      annotated come last in their split, without captions.
    everything: name of one split that takes all videos, instead.

  Returns:
    split -> videos; and the videos that are in no split.

  Raises:
    DataError: no split is known for any video, or none of the listed ids is annotated.
  """
  videos = annotations.videos
  if everything is not None:
    return {normalize_split(everything, '--split'): list(videos.values())}, []
  if listed is None:
    split_of = {v.video_id: v.split for v in videos.values() if v.split is not None}
    if not split_of:
      raise DataError(
        'the annotation says no splits; give a split file with --splits=FILE, '
        'or put all videos into one with --split=train (or test)'
      )
    names = list(dict.fromkeys(split_of.values()))
  else:
    split_of = {video_id: split for split, ids in listed.items() for video_id in ids}
    names = list(listed)
    if split_of and not split_of.keys() & videos.keys():
      raise DataError(
        'no video of the split file is in the annotation: '
        f'{three(split_of)} there, {three(videos)} in the annotation'
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


def three(ids) -> str:
  """The first three ids, for messages."""
  ids = list(ids)
  return ', '.join(repr(i) for i in ids[:3]) + (', …' if len(ids) > 3 else '')
