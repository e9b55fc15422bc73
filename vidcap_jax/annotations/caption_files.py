"""Reads the captions to score and their references, by the readers that also build data sets.

Only what belongs to scoring is here: one caption a video, what evaluations and challenge servers
write, choosing a split, and recognizing a file's form.
"""

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vidcap_jax.annotations import (
  captions_json,
  coco,
  flickr,
  karpathy,
  msrvtt,
  read_annotations,
  rows,
)
from vidcap_jax.annotations.files import read_json, read_lines, read_pickle
from vidcap_jax.annotations.model import Annotations, Located, read_id
from vidcap_jax.annotations.splits import as_annotated, split_lists
from vidcap_jax.counts import counted
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.split_names import usual_name
from vidcap_jax.errors import DataError, first_few

FORMS = """accepted files:
  .json   {id: caption}, {id: [captions]}, a list of objects with an id (video_id, video, image_id,
          videoID or id) and caption, sentence or captions (so the captions.json of an evaluation),
          a server submission, an official MSR-VTT annotation, a COCO annotation or Karpathy's form
          of it; any of these as the 'predictions' of an object, with scores or settings beside them
  .pkl    {id: caption} or {id: [captions]}, as a pickle
  .jsonl  one object a line, as in the list above
  .csv    with a header that names an id column and caption
  .txt    id, tab, caption (the S2VT form of MSVD), or a header like that of .csv; .tsv likewise
  .token  Flickr8k's and Flickr30k's lines NAME.jpg#0, tab, caption; as .txt too, and the CSV files
          image,caption
The references may be of any other form that data sets are built from, with --format.
A split may be named by the references themselves (MSR-VTT, or a split field or column) or by
their file's name; val stands for validate, dev, … where a file spells it so.
References may also be the folder of a data set, with a split.
"""


def read_hypotheses(path: str | pathlib.Path) -> dict[str, str]:
  """Reads one caption per video.

  Raises:
    DataError: a video with no caption or several, or a file of no known form.
  """
  videos = _read(pathlib.Path(path)).videos.values()
  if wrong := [f'{v.video_id} ({len(v.captions)})' for v in videos if len(v.captions) != 1]:
    raise DataError(
      f'{path}: {counted(len(wrong), "video")} without exactly one caption: {first_few(wrong)}',
      wrong,
    )
  return {video.video_id: video.captions[0] for video in videos}


def read_references(
  path: str | pathlib.Path,
  split: str | None = None,
  splits: str | pathlib.Path | None = None,
  *,
  form: str | None = None,
  language: str | None = None,
) -> dict[str, list[str]]:
  """Reads all captions of every video, or of one split's videos.

  Args:
    path: a file as in ``FORMS``, or a data set's folder.
    split: keep only this split, in any spelling; by default everything.
    splits: a split file (see ``splits.read_splits``), in place of the splits that ``path`` names.
    form: a key of ``annotations.FORMATS``; by default it is recognized.
    language: of the captions, where the form has captions in several languages.

  Raises:
    DataError: no such split, ids in it that the file lacks, a file of no known form, or a folder
      that is no data set, or a damaged one.
  """
  path = pathlib.Path(path)
  if path.is_dir() and form is None:
    return _data_set_captions(path, split, splits)
  if form is None:
    videos = _read(path).videos
  else:
    videos = read_annotations(form, [str(path)], language, for_scoring=True).videos
  if splits is not None:
    if split is None:
      raise DataError(f'{splits}: give the name of a split too, as in --split=test')
    ids = as_annotated(_listed_ids(pathlib.Path(splits), split), videos)
    if missing := [video_id for video_id in ids if video_id not in videos]:
      raise DataError(
        f'{path} lacks {len(missing)} of the {len(ids)} videos of split {split!r}: '
        f'{first_few(missing)}',
        missing,
      )
    return {video_id: videos[video_id].captions for video_id in ids}
  if split is not None:
    names = _matching(split, [v.split for v in videos.values() if v.split is not None], path)
    videos = {video_id: video for video_id, video in videos.items() if video.split in names}
  return {video_id: video.captions for video_id, video in videos.items()}


def find_splits(
  path: str | pathlib.Path, *, form: str | None = None, language: str | None = None
) -> dict[str, str]:
  """The split of each video that has one, by id; arguments as of ``read_references``."""
  path = pathlib.Path(path)
  if path.is_dir() and form is None:
    names = read_manifest(path).splits
    return {video.video_id: name for name in names for video in open_split(path, name)}
  if form is None:
    videos = _read(path).videos
  else:
    videos = read_annotations(form, [str(path)], language, for_scoring=True).videos
  return {video_id: video.split for video_id, video in videos.items() if video.split is not None}


def _data_set_captions(path: pathlib.Path, split, splits) -> dict[str, list[str]]:
  names = read_manifest(path).splits
  if splits is not None:
    raise DataError(f'{path} is a data set, which has splits of its own: leave the splits file out')
  if split is None:
    raise DataError(f'{path} is a data set: name one of its splits, {", ".join(names)}')
  matching = _matching(split, names, path)
  return {v.video_id: list(v.captions) for name in matching for v in open_split(path, name)}


def _listed_ids(path: pathlib.Path, split: str) -> list[str]:
  """The ids of a split in a split file."""
  if not path.is_file():
    raise DataError(f'{path}: no such split file')
  lists = split_lists(path)
  names = _matching(split, [name for name, _ in lists], path)
  return [read_id(video_id) for name, ids in lists if name in names for video_id in ids]


def _matching(split: str, names: Iterable[str], path: pathlib.Path) -> Sequence[str]:
  """Those of the names that mean the split: the same name, or else its other spellings.

  Raises:
    DataError: there is none.
  """
  names = list(dict.fromkeys(names))
  if split in names:
    return [split]
  if matching := [name for name in names if usual_name(name) == usual_name(split)]:
    return matching
  raise DataError(f'{path} has no split {split!r}; its splits: {", ".join(names) or "none"}')


def _read(path: pathlib.Path) -> Annotations:
  """A file's videos, its form recognized by its suffix and contents."""
  annotations = Annotations(for_scoring=True)
  annotations.add_file(path, _entries(path))
  if not annotations.videos:
    raise DataError(
      f'{path} holds no captions; give a file with at least one, in a form of docs/evaluation.md'
    )
  return annotations


def _entries(path: pathlib.Path) -> Iterator[Located]:
  match path.suffix.lower():
    case '.json':
      return _json_entries(read_json(path), path)
    case '.pkl' | '.pickle':
      return captions_json.entries(read_pickle(path), path)
    case '.jsonl':
      return rows.jsonl_entries(path)
    case '.csv' | '.txt' | '.tsv' | '.token':
      return _line_entries(path)
  raise DataError(
    f'{path}: unknown kind of captions file; known: .json, .pkl, .jsonl, .csv, .txt, .tsv, .token'
  )


def _line_entries(path: pathlib.Path) -> Iterator[Located]:
  first_line = next((line for _, line in read_lines(path)), '')
  if path.suffix.lower() == '.token' or flickr.is_flickr(first_line):
    return flickr.entries(path)
  return rows.table_entries(path) if path.suffix.lower() == '.csv' else rows.tab_entries(path)


def _json_entries(data: Any, path: pathlib.Path) -> Iterator[Located]:
  if not isinstance(data, dict):
    return captions_json.entries(data, path)
  lists = {key for key, value in data.items() if isinstance(value, list)}
  if 'sentences' in lists:
    return msrvtt.entries(data, path)
  if 'annotations' in lists:
    return coco.entries(data, path)
  if 'images' in lists and 'annotations' not in data:
    return karpathy.entries(data, path)
  if 'result' in lists and 'version' in data:  # a submission to the MSR-VTT challenge
    return rows.list_entries(data['result'], path)
  if _holds_captions(data.get('predictions')):
    return _json_entries(data['predictions'], path)
  return captions_json.entries(data, path)


def _holds_captions(predictions: Any) -> bool:
  """Whether 'predictions' wraps captions by id; otherwise it is itself the id of a video."""
  if isinstance(predictions, list):
    return all(
      isinstance(item, dict) and any(field in item for field in rows.ID_FIELDS)
      for item in predictions
    )
  return isinstance(predictions, dict)
