r"""MSVD in the S2VT text form: ``sents_{train,val,test}_lc_nopunc.txt``, lines ``vidN\tcaption``.

The split is in the file name. Given is the folder that holds the files, or the files themselves.
"""

import pathlib
import re
from collections.abc import Sequence

from data_prep.annotations.model import SPLIT_NAMES, Annotations, malformed, read_text
from vidcap_jax.data.schema import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads the three files, or as many of them as there are.

  Raises:
    DataError: no such files in the folder, a file name that says no split, a line without a tab.
  """
  files = []
  for path in paths:
    if path.is_dir():
      found = [f for f in sorted(path.glob('sents_*.txt')) if _split_of(f)]
      if not found:
        raise DataError(f'{path}: no file like sents_train_lc_nopunc.txt in this folder')
      files += found
    else:
      files.append(path)
  order = list(SPLIT_NAMES)
  annotations = Annotations()
  for path in sorted(files, key=lambda f: order.index(_split_of(f) or order[0])):
    split = _split_of(path)
    if split is None:
      raise DataError(f'{path}: the file name must say its split, as in sents_train_lc_nopunc.txt')
    _read_file(path, split, annotations)
  return annotations


def _split_of(path: pathlib.Path) -> str | None:
  parts = re.split(r'[^a-z]+', path.stem.lower())
  found = {name for name, group in SPLIT_NAMES.items() if set(group) & set(parts)}
  return found.pop() if len(found) == 1 else None


def _read_file(path: pathlib.Path, split: str, annotations: Annotations) -> None:
  problems = []
  # Not splitlines(): captions may hold characters that it takes for line breaks.
  for number, line in enumerate(read_text(path).split('\n'), 1):
    if not line.strip():
      continue
    video_id, tab, caption = line.partition('\t')
    video_id = video_id.strip()
    if not tab or not video_id:
      problems.append((f'line {number}', f'not "id<TAB>caption": {line[:60]!r}'))
      continue
    annotations.set_split(video_id, split, f'{path}: line {number}')
    annotations.add_caption(video_id, caption)
  if problems:
    raise malformed(path, problems)
