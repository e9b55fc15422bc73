r"""LSMDC's lines, and M-VAD's: ``clip\tstart\tend\tstart\tend\tsentence`` or ``clip\tsentence``.

LSMDC16_annos_training.csv and similar files are tab-separated, without quoting or a header. The
split is in the file name; blindtest, which has no sentences, is the split ``blind_test``. A clip
usually has one sentence; a clip that is listed several times has several. ``SOMEONE``, which stands
for names, stays a word.
"""

import pathlib
import re
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_lines
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name
from vidcap_jax.annotations.rows import is_header

# In LSMDC's names the movie is followed by the clip's times: MOVIE_00.00.51.926-00.00.54.129.
_CLIP = re.compile(r'(.+)_[0-9.]+-[0-9.]+')
_SPECIAL = {'blindtest': 'blind_test', 'publictect': 'test'}  # 'publictect' is as published


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files.

  Raises:
    DataError: a line that has neither two nor six fields (five without sentence), or no clip.
  """
  for path in paths:
    annotations.add_file(path, _entries(path))


def _split(path: pathlib.Path) -> str | None:
  special = [split for word, split in _SPECIAL.items() if word in path.stem.lower()]
  return special[0] if special else split_in_name(path)


def _entries(path: pathlib.Path) -> Iterator[Located]:
  split = _split(path)
  for where, line in read_lines(path):
    name, *rest = line.split('\t')
    if len(rest) not in (1, 4, 5):
      yield where, f'not "clip<TAB>four times<TAB>sentence" or "clip<TAB>sentence": {line[:60]!r}'
      continue
    if is_header(line):
      yield where, f'a header, which this form does not have: {line[:60]!r}'
      continue
    clip = _CLIP.fullmatch(name.strip())
    sentence = None if len(rest) == 4 else rest[-1]
    yield where, Entry(name, sentence, split, source=clip and clip[1])
