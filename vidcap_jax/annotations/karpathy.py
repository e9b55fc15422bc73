"""Karpathy's dataset_coco.json: ``{"images": [{"cocoid", "split", "sentences": [{"raw"}]}]}``.

The id is ``cocoid``, or ``imgid`` in files without it (Flickr30k's), as features are named by
these. A sentence's text is ``raw``, or its ``tokens``. The split ``restval`` is read as ``train``,
as it is usually trained on.
"""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry, Located
from vidcap_jax.errors import DataError

REST = 'restval'


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files.

  Raises:
    DataError: not such a file, or an entry without what it needs.
  """
  for path in paths:
    annotations.add_file(path, entries(read_json(path), path))


def split_of(image: dict):
  """An image's split."""
  return 'train' if image.get('split') == REST else image.get('split')


def entries(data, path: pathlib.Path) -> Iterator[Located]:
  """The entries of a file's JSON."""
  if not isinstance(data, dict) or not isinstance(data.get('images'), list):
    raise DataError(f'{path}: not a file of Karpathy\'s form: it needs a list "images"')
  for i, image in enumerate(data['images']):
    where = f'images[{i}]'
    if not isinstance(image, dict):
      yield where, 'not an object'
      continue
    sentences = image.get('sentences', [])
    if not isinstance(sentences, list) or not all(isinstance(s, dict) for s in sentences):
      yield where, '"sentences" is not a list of objects'
      continue
    captions = [_text(sentence) for sentence in sentences]
    if None in captions:
      yield (
        where,
        f'sentences[{captions.index(None)}]: no text under "raw", no words under "tokens"',
      )
      continue
    name = image.get('cocoid', image.get('imgid'))
    yield where, Entry(name, captions, split_of(image), source=image.get('filename'))


def _text(sentence: dict) -> str | None:
  text, words = sentence.get('raw'), sentence.get('tokens')
  if text is None and isinstance(words, list) and all(isinstance(word, str) for word in words):
    return ' '.join(words)
  return text if isinstance(text, str) else None
