"""ActivityNet Captions' JSON: ``{"v_ID": {"duration", "timestamps": [[a, b]], "sentences": []}}``.

Each segment is a clip with one caption; its id is ``v_ID_segment_00``, counted from 0 in the file's
order. The split is in the file name. val_1.json and val_2.json annotate different segments of the
same videos, so they are two data sets.
"""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name
from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files.

  Raises:
    DataError: not such a file; a video whose numbers of segments and sentences differ, whose times
      are not pairs of numbers, or that is in two files.
  """
  files: dict[str, pathlib.Path] = {}
  for path in paths:
    data = read_json(path)
    if not isinstance(data, dict):
      raise DataError(f'{path}: not an ActivityNet file: it needs an object {{video: segments}}')
    if twice := [video for video in data if video in files]:
      raise DataError(
        f'{path}: {counted(len(twice), "video")} also in {files[twice[0]]} (first: {twice[0]}), '
        'with other segments; build two data sets'
      )
    files |= dict.fromkeys(data, path)
    annotations.add_file(path, _entries(data, split_in_name(path)))


def _entries(data: dict, split: str | None) -> Iterator[Located]:
  for video, described in data.items():
    where = repr(video)
    if not isinstance(described, dict):
      yield where, 'not an object'
      continue
    times, sentences = described.get('timestamps'), described.get('sentences')
    if not isinstance(times, list) or not all(map(_is_segment, times)):
      yield where, '"timestamps" is not a list of pairs of numbers'
    elif sentences is not None and not isinstance(sentences, list):
      yield where, '"sentences" is not a list'
    elif sentences is not None and len(sentences) != len(times):
      yield where, f'{len(times)} segments and {len(sentences)} sentences'
    else:
      for i in range(len(times)):
        clip = f'{video.strip()}_segment_{i:02d}' if video.strip() else None
        captions = None if sentences is None else [sentences[i]]
        yield f'{where}, segment {i}', Entry(clip, captions, split, source=video)


def _is_segment(times) -> bool:
  return isinstance(times, list) and list(map(type, times)) in _PAIRS


_PAIRS = [[a, b] for a in (int, float) for b in (int, float)]
