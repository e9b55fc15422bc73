"""JSON as for COCO's captions: ``{"images": [{"id"}], "annotations": [{"image_id", "caption"}]}``.

An image stands for a video; its ``id`` (a text or a number) names the features. A ``split`` of the
image counts, else one that the file name says, as captions_val.json does.
"""

import pathlib
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry, split_in_name
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path]) -> Annotations:
  """Reads one or more files.

  Raises:
    DataError: not such a file, or an entry without what it needs; a caption of an image that is
      not among "images".
  """
  annotations = Annotations()
  for path in paths:
    annotations.read(path, _entries(path))
  return annotations


def _entries(path: pathlib.Path) -> Iterator[tuple[str, Entry | str]]:
  data = read_json(path)
  if not isinstance(data, dict) or not isinstance(data.get('images'), list):
    raise DataError(f'{path}: not a COCO file: it needs an object with a list "images"')
  captions = data.get('annotations') or []
  if not isinstance(captions, list):
    raise DataError(f'{path}: "annotations" is not a list')
  named = split_in_name(path)
  known = set()
  for i, image in enumerate(data['images']):
    where = f'images[{i}]'
    if not isinstance(image, dict):
      yield where, 'not an object'
      continue
    known.add(str(image.get('id')))
    source = image.get('file_name')
    yield where, Entry(image.get('id'), split=image.get('split', named), source=source)
  for i, item in enumerate(captions):
    where = f'annotations[{i}]'
    if not isinstance(item, dict):
      yield where, 'not an object'
    elif item.get('caption') is None:
      yield where, 'no text under "caption"'
    elif str(item.get('image_id')) not in known:
      yield where, f'"image_id" is {item.get("image_id")!r}, which no image has'
    else:
      yield where, Entry(item['image_id'], item['caption'])
