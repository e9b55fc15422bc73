"""Reads annotation files of every form into one: videos with captions and a split.

Each form is a module with ``read(paths, annotations)``, which adds the files' videos; ``FORMATS``
lists them. A reader outside the package is named as ``package.module:read``; see docs/extending.md.
What scores captions reads files through the same code (``caption_files``).
"""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

from vidcap_jax import extensions
from vidcap_jax.annotations import (
  activitynet,
  captions_json,
  coco,
  cocotalk,
  flickr,
  karpathy,
  lsmdc,
  msrvtt,
  msvd,
  msvd_corpus,
  rows,
  vatex,
  webvid,
)
from vidcap_jax.annotations.model import Annotations
from vidcap_jax.errors import DataError

Reader = Callable[[Sequence[pathlib.Path], Annotations], None]

# Each form's reader by language of the captions; None where the form is not of one language.
FORMATS: Mapping[str, Mapping[str | None, Reader]] = {
  'msrvtt': {'en': msrvtt.read},
  'msvd': {'en': msvd.read},
  'msvd_corpus': {'en': msvd_corpus.read},
  'vatex': {code: functools.partial(vatex.read, language=code) for code in vatex.CAPTIONS},
  'lsmdc': {'en': lsmdc.read},
  'activitynet': {'en': activitynet.read},
  'webvid': {'en': webvid.read},
  'coco': {None: coco.read},
  'karpathy': {None: karpathy.read},
  'flickr': {'en': flickr.read},
  'cocotalk': {None: cocotalk.read},
  'json': {None: captions_json.read},
  'pickle': {None: captions_json.read_pickles},
  'jsonl': {None: rows.read_jsonl},
  'csv': {None: rows.read_csv},
}


def read_annotations(
  form: str, paths: Sequence[str], language: str | None = None, *, for_scoring: bool = False
) -> Annotations:
  """Reads annotation files of one form; several files are read as one.

  Args:
    form: a key of ``FORMATS``, or ``package.module:read``.
    paths: the files.
    language: which captions to read, where the form has captions in several languages.
    for_scoring: keep captions and split names as written (see ``Annotations``).

  Raises:
    DataError: unknown form or language, missing or malformed file (with line or key),
      contradicting splits.
  """
  readers = find(form)
  language = _language(form, list(readers), language)
  files = [pathlib.Path(path) for path in paths]
  for path in files:
    if not path.exists():
      raise DataError(f'{path}: no such annotation file')
  annotations = Annotations(language=language, for_scoring=for_scoring)
  readers[language](files, annotations)
  if not annotations.videos:
    raise DataError(f'{", ".join(paths)}: no video in it; is it of the format {form!r}?')
  return annotations


def find(form: str) -> Mapping[str | None, Reader]:
  """A form's readers by language of the captions, as in ``FORMATS``; DataError if unknown."""
  if extensions.is_external(form):
    reader = extensions.load(form, '--format', DataError)
    if not callable(reader):
      raise DataError(f'--format={form}: not a function of the annotation files')
    return {None: reader}
  if form not in FORMATS:
    raise DataError(
      f'unknown annotation format {form!r}; known: {", ".join(FORMATS)}, or package.module:read'
    )
  return FORMATS[form]


def _language(form: str, known: list[str | None], language: str | None) -> str | None:
  """The key of the form's reader; DataError if the language must be given, or has no reader."""
  if language is None and len(known) == 1:
    return known[0]
  if language in known:
    return language
  if known == [None]:
    raise DataError(
      f'--language={language}: the format {form!r} does not name languages; leave it out'
    )
  codes = ' or '.join(f'--language={code}' for code in known)
  raise DataError(f'the format {form!r} has captions in certain languages; give {codes}')
