"""VATEX's official JSON: ``[{"videoID": "ID_000005_000015", "enCap": [...], "chCap": [...]}]``.

Files without captions (the private test's) are fine. The split is in the file name:
vatex_training_v1.0.json, vatex_validation_v1.0.json, vatex_public_test_english_v1.1.json; the
private test's videos are the split ``private_test``.
"""

import pathlib
import re
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name
from vidcap_jax.errors import DataError

CAPTIONS = {'en': 'enCap', 'zh': 'chCap'}

# YouTube ids may contain '_', so the times are matched from the right.
_CLIP = re.compile(r'(.+)_([0-9]{6})_([0-9]{6})')


def read(paths: Sequence[pathlib.Path], annotations: Annotations, language: str) -> None:
  """Reads one or more files.

  Args:
    paths: the files.
    annotations: where the videos are added.
    language: a key of ``CAPTIONS``.

  Raises:
    DataError: not JSON, an entry without id or with captions that are no texts, or captions in
      the other language alone.
  """
  others = 0
  for path in paths:
    data = read_json(path)
    if not isinstance(data, list):
      raise DataError(f'{path}: not a VATEX file: it needs a list of objects with "videoID"')
    annotations.add_file(path, _entries(data, _split(path), CAPTIONS[language]))
    others += sum(isinstance(e, dict) and any(key in e for key in CAPTIONS.values()) for e in data)
  if others and not any(v.captions for v in annotations.videos.values()):
    raise DataError(
      f'no caption under "{CAPTIONS[language]}" in {", ".join(map(str, paths))}; '
      'is --language the right one?'
    )


def _split(path: pathlib.Path) -> str | None:
  return 'private_test' if 'private_test' in path.stem.lower() else split_in_name(path)


def _entries(data: list, split: str | None, key: str) -> Iterator[Located]:
  for i, item in enumerate(data):
    where = f'[{i}]'
    if not isinstance(item, dict):
      yield where, 'not an object'
      continue
    name = item.get('videoID')
    clip = _CLIP.fullmatch(name.strip()) if isinstance(name, str) else None
    yield where, Entry(name, item.get(key), split, source=clip and clip[1])
