"""Captions by video: JSON ``{"id": ["caption", ...]}``, as MSVD's often go round.

A single caption need not be in a list. There are no splits in it; see ``--splits``.
"""

import pathlib
from collections.abc import Sequence

from data_prep.annotations.files import read_json
from data_prep.annotations.model import Annotations, Entry
from vidcap_jax.data.schema import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads one or more files.

  Raises:
    DataError: not such a file, or captions that are neither a text nor a list of texts.
  """
  annotations = Annotations()
  for path in paths:
    data = read_json(path)
    if not isinstance(data, dict):
      raise DataError(f'{path}: not an object {{"id": ["caption", …]}}')
    annotations.read(path, ((repr(i), Entry(i, captions)) for i, captions in data.items()))
  return annotations
