"""MSR-VTT's official JSON: ``{"videos": [...], "sentences": [...]}``.

A video has ``video_id`` and, where known, ``split``, ``category`` and ``url``; a sentence has
``video_id`` and ``caption``, a text or a list of texts. The official test file has no sentences,
which is fine, and a file of sentences may have no videos. Copies of the annotation in which every
video is marked ``train`` are common; to build a data set of one, give the splits.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry, Located
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files, such as those of train_val and test.

  Raises:
    DataError: not JSON, or an entry without what it needs; the entry is named.
  """
  for path in paths:
    annotations.add_file(path, entries(read_json(path), path))
  if {video.split for video in annotations.videos.values()} == {'train'}:
    annotations.undecided = 'every video of the annotation is marked "train"'


def entries(data: Any, path: pathlib.Path) -> Iterator[Located]:
  """The entries of a file's JSON."""
  if not isinstance(data, dict) or not ('videos' in data or 'sentences' in data):
    raise DataError(f'{path}: not an MSR-VTT file: it needs an object with a list "videos"')
  videos, sentences = data.get('videos', []), data.get('sentences') or []
  for key, value in (('videos', videos), ('sentences', sentences)):
    if not isinstance(value, list):
      raise DataError(f'{path}: "{key}" is not a list')
  for i, video in enumerate(videos):
    where = f'videos[{i}]'
    if not isinstance(video, dict):
      yield where, 'not an object'
      continue
    split, category, url = (video.get(key) for key in ('split', 'category', 'url'))
    yield where, Entry(video.get('video_id'), split=split, category=category, source=url)
  for i, sentence in enumerate(sentences):
    where = f'sentences[{i}]'
    if not isinstance(sentence, dict):
      yield where, 'not an object'
    elif sentence.get('caption') is None:
      yield where, 'no text under "caption"'
    else:
      yield where, Entry(sentence.get('video_id'), sentence['caption'])
