"""An annotation form: notes. A line ``# ID`` begins a video, each line below it is a caption."""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_lines
from vidcap_jax.annotations.model import Annotations, Entry, Located


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Adds the videos of one or more files; the splits are given by ``--splits``.

  Raises:
    DataError: captions above the first ``# ID``, named by number of the line.
  """
  for path in paths:
    annotations.add_file(path, _entries(path))


def _entries(path: pathlib.Path) -> Iterator[Located]:
  video_id = ''
  for where, line in read_lines(path):
    if line.startswith('# '):
      video_id = line.removeprefix('# ').strip()
    elif video_id:
      yield where, Entry(video_id, line)
    else:
      yield where, f'the caption {line!r} is above the first line "# ID"'
