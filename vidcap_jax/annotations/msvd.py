r"""MSVD in the S2VT text form: ``sents_{train,val,test}_lc_nopunc.txt``, lines ``vidN\tcaption``.

The split is in the file name. Either the folder of the files is given or the files themselves.
"""

import pathlib
from collections.abc import Sequence

from vidcap_jax.annotations.model import Annotations, split_in_name
from vidcap_jax.annotations.rows import tab_entries
from vidcap_jax.data.split_names import SPLIT_NAMES
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads the three files, or as many of them as there are.

  Raises:
    DataError: no such files in the folder, a file name without a split, a line without a tab.
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
  for path in sorted(files, key=lambda f: order.index(split_in_name(f) or order[0])):
    if split_in_name(path) is None:
      raise DataError(f'{path}: the file name must hold its split, as sents_train_lc_nopunc.txt')
    annotations.add_file(path, tab_entries(path))
