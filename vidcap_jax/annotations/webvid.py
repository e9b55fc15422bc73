"""WebVid's CSV: columns videoid, name (the caption) and, optionally, contentUrl.

The split is in the file name: results_2M_train.csv, results_2M_val.csv.
"""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_table
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files.

  Raises:
    DataError: no such columns, or rows that don't fit them, named by line.
  """
  for path in paths:
    annotations.add_file(path, _entries(path))


def _entries(path: pathlib.Path) -> Iterator[Located]:
  split = split_in_name(path)
  for where, row in read_table(path, [('videoid',), ('name',)]):
    if isinstance(row, str):
      yield where, row
    else:
      yield where, Entry(row['videoid'], row['name'], split, source=row.get('contentUrl'))
