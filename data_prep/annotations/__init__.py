"""Annotation files in the forms they come in, read into one: videos with captions and a split.

Each form is a module with ``read(paths) -> Annotations``; ``FORMATS`` lists them.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence

from data_prep.annotations import msrvtt, msvd, rows
from data_prep.annotations.model import Annotations
from vidcap_jax.data.schema import DataError

FORMATS: Mapping[str, Callable[[Sequence[pathlib.Path]], Annotations]] = {
  'msrvtt': msrvtt.read,
  'msvd': msvd.read,
  'jsonl': rows.read_jsonl,
  'csv': rows.read_csv,
}


def read_annotations(form: str, paths: Sequence[str]) -> Annotations:
  """Reads annotation files of one form; several files are read as one.

  Raises:
    DataError: unknown form, missing or malformed file (with line or key), contradicting splits.
  """
  if form not in FORMATS:
    raise DataError(f'unknown annotation format {form!r}; known: {", ".join(FORMATS)}')
  found = [pathlib.Path(path) for path in paths]
  for path in found:
    if not path.exists():
      raise DataError(f'{path}: no such annotation file')
  annotations = FORMATS[form](found)
  if not annotations.videos:
    raise DataError(f'{", ".join(paths)}: no video in it; is it of the format {form!r}?')
  return annotations
