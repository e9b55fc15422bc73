"""MSR-VTT's official JSON: ``{"videos": [...], "sentences": [...]}``.

A video has ``video_id`` and, where known, ``split``, ``category`` and ``url``; a sentence has
``video_id`` and ``caption``, a text or a list of texts. The official test file has no sentences,
which is fine. Files in which every video says ``train`` go round too; they say nothing about
splits.
"""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads one or more files (train_val and test, say).

  Raises:
    DataError: not JSON, or an entry without what it needs; the entry is named.
  """
  annotations = Annotations()
  for path in paths:
    annotations.read(path, _entries(path))
  if {video.split for video in annotations.videos.values()} == {'train'}:
    for video in annotations.videos.values():
      video.split = None
    annotations.undecided = 'every video of the annotation says "train"'
  return annotations


def _entries(path: pathlib.Path) -> Iterator[tuple[str, Entry | str]]:
  data = read_json(path)
  if not isinstance(data, dict) or not isinstance(data.get('videos'), list):
    raise DataError(f'{path}: not an MSR-VTT file: it needs an object with a list "videos"')
  sentences = data.get('sentences') or []
  if not isinstance(sentences, list):
    raise DataError(f'{path}: "sentences" is not a list')
  for i, video in enumerate(data['videos']):
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
