"""JSON as for COCO's captions: ``{"images": [{"id"}], "annotations": [{"image_id", "caption"}]}``.

An image stands for a video; its ``id`` (a text or a number) names the features, and an annotation
may give it as ``video_id`` too. ``images`` may be left out. A ``split`` of the image counts, else
the split in the file's name, as in captions_val.json.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name
from vidcap_jax.errors import DataError


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files.

  Raises:
    DataError: not such a file, or an entry without what it needs; a caption of an image that is
      not among "images".
  """
  for path in paths:
    annotations.add_file(path, entries(read_json(path), path))


def entries(data: Any, path: pathlib.Path) -> Iterator[Located]:
  """The entries of a file's JSON."""
  if not isinstance(data, dict) or not ('images' in data or 'annotations' in data):
    raise DataError(f'{path}: not a COCO file: it needs lists "images" and "annotations"')
  images, captions = (data.get(key) or [] for key in ('images', 'annotations'))
  for key, value in (('images', images), ('annotations', captions)):
    if not isinstance(value, list):
      raise DataError(f'{path}: "{key}" is not a list')
  split = split_in_name(path)
  for i, image in enumerate(images):
    where = f'images[{i}]'
    if isinstance(image, dict):
      source = image.get('file_name')
      yield where, Entry(image.get('id'), split=image.get('split', split), source=source)
    else:
      yield where, 'not an object'
  known = {str(image.get('id')) for image in images if isinstance(image, dict)}
  for i, item in enumerate(captions):
    yield f'annotations[{i}]', _caption(item, known, split)


def _caption(item: Any, known: set[str], split: str | None) -> Entry | str:
  if not isinstance(item, dict):
    return 'not an object'
  if item.get('caption') is None:
    return 'no text under "caption"'
  image_id = item.get('image_id', item.get('video_id'))
  if known and str(image_id) not in known:
    return f'"image_id" is {image_id!r}, which no image has'
  return Entry(image_id, item['caption'], None if known else split)
