"""An annotation form: Flickr8k's, with a caption in each line: ``ID.jpg#NUMBER<TAB>CAPTION``."""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_lines
from vidcap_jax.annotations.model import Annotations, Entry, Located


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Adds the videos of one or more files; the splits are given by ``--splits``.

  Raises:
    DataError: lines that are not of this form, named by number.
  """
  for path in paths:
    annotations.add_file(path, _entries(path))


def _entries(path: pathlib.Path) -> Iterator[Located]:
  for where, line in read_lines(path):
    name, tab, caption = line.partition('\t')
    video_id, number_sign, _ = name.partition('#')
    if tab and number_sign:
      yield where, Entry(video_id.removesuffix('.jpg'), caption)
    else:
      yield where, f'{line!r} is not ID.jpg#NUMBER, a tab and a caption'
