r"""MSVD in the S2VT text form: ``sents_{train,val,test}_lc_nopunc.txt``, lines ``vidN\tcaption``.

The split is in the file name. Given is the folder that holds the files, or the files themselves.
"""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_lines
from vidcap_jax.annotations.model import Annotations, Entry, split_in_name
from vidcap_jax.data.split_names import SPLIT_NAMES
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads the three files, or as many of them as there are.

  Raises:
    DataError: no such files in the folder, a file name that says no split, a line without a tab.
  """
  files = []
  for path in paths:
    if path.is_dir():
      found = [f for f in sorted(path.glob('sents_*.txt')) if split_in_name(f)]
      if not found:
        raise DataError(f'{path}: no file like sents_train_lc_nopunc.txt in this folder')
      files += found
    else:
      files.append(path)
  order = list(SPLIT_NAMES)
  annotations = Annotations()
  for path in sorted(files, key=lambda f: order.index(split_in_name(f) or order[0])):
    split = split_in_name(path)
    if split is None:
      raise DataError(f'{path}: the file name must say its split, as in sents_train_lc_nopunc.txt')
    annotations.read(path, _entries(path, split))
  return annotations


def _entries(path: pathlib.Path, split: str) -> Iterator[tuple[str, Entry | str]]:
  for where, line in read_lines(path):
    video_id, tab, caption = line.partition('\t')
    if tab and video_id.strip():
      yield where, Entry(video_id, caption, split)
    else:
      yield where, f'not "id<TAB>caption": {line[:60]!r}'
