"""MSVD as it was collected: a CSV with columns VideoID, Start, End, Language and Description.

A clip's id is ``VideoID_Start_End``, like the name of its file. English rows are read; the others
are left out and counted by language. Languages are not detected: a row labelled English in letters
that are not Latin is kept and reported. A file's name may hold its split, as in train.csv. The
usual splits are given by numbers of the S2VT text form and need its mapping: ``--splits=msvd
--id_map=youtube_mapping.txt``.
"""

import pathlib
import re
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_table
from vidcap_jax.annotations.model import Annotations, Entry, Located, read_id, split_in_name
from vidcap_jax.annotations.text import script
from vidcap_jax.counts import counted
from vidcap_jax.errors import DataError

# Programs that rewrite the table may write 5.0 for 5.
_SECONDS = re.compile(r'([0-9]+)(\.0*)?')

COLUMNS = ('VideoID', 'Start', 'End', 'Language', 'Description')


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads the corpus.

  Raises:
    DataError: a column is missing, or a row has no id or times that are not whole seconds.
  """
  scripts: dict[str, list[str]] = {}
  for path in paths:
    annotations.add_file(path, _entries(path, annotations, scripts))
  for name, places in scripts.items():
    annotations.notes.append(
      f'{counted(len(places), "caption")} labelled English but written in {name} letters, and kept '
      f'(first: {places[0]})'
    )


def _entries(
  path: pathlib.Path, annotations: Annotations, scripts: dict[str, list[str]]
) -> Iterator[Located]:
  split = split_in_name(path)
  for where, row in read_table(path, [(name,) for name in COLUMNS]):
    if isinstance(row, str):
      yield where, row
      continue
    source, start, end, language, text = (row[name].strip() for name in COLUMNS)
    times = [_SECONDS.fullmatch(text) for text in (start, end)]
    if not (source and times[0] and times[1]):
      yield where, f'no clip: VideoID {source!r}, Start {start!r}, End {end!r}'
      continue
    try:
      clip = read_id(f'{source}_{times[0][1]}_{times[1][1]}')
    except DataError as error:
      yield where, str(error)
      continue
    if language.casefold() == 'english':
      if (letters := script(text)) not in ('Latin', ''):
        scripts.setdefault(letters, []).append(f'{path}: {where}')
      yield where, Entry(clip, text, split, source=source)
    else:
      annotations.leave_out(f'in {language.capitalize() or "no named language"}', clip)
      yield where, Entry(clip, split=split, source=source)
