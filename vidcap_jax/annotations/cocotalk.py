"""Captions as numbers: cocotalk.json with words and images, cocotalk_label.h5 with the captions.

ImageCaptioning.pytorch trains on this pair of files. ``labels`` is (captions, words): numbers from
1 in ``ix_to_word``, and 0 after the end. Image i has the captions ``label_start_ix[i]`` to
``label_end_ix[i]``, counted from 1, inclusive. Rare words are ``UNK`` and long captions are cut, so
references should come from the text (``karpathy``) where it is available.
"""

import pathlib
from collections.abc import Iterator, Sequence

import numpy as np

from vidcap_jax.annotations.files import read_json
from vidcap_jax.annotations.karpathy import split_of
from vidcap_jax.annotations.model import Annotations, Entry, Located
from vidcap_jax.errors import DataError

UNKNOWN = 'UNK'
_NUMBERS = ('labels', 'label_start_ix', 'label_end_ix')


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one pair of files.

  Raises:
    DataError: not one .json and one .h5 file of this form, or two of different data sets.
  """
  words = [path for path in paths if path.suffix.lower() == '.json']
  labels = [path for path in paths if path.suffix.lower() in ('.h5', '.hdf5')]
  if len(words) != 1 or len(labels) != 1 or len(paths) != 2:
    raise DataError(
      f'{", ".join(map(str, paths))}: give the two files of this form, as in '
      '--annotations=cocotalk.json,cocotalk_label.h5'
    )
  names, images = _words(words[0])
  numbers, starts, ends = _labels(labels[0])
  if len(images) != len(starts):
    raise DataError(
      f'{words[0]} has {len(images)} images, {labels[0]} has the captions of {len(starts)}; '
      'are both of one data set?'
    )
  annotations.add_file(words[0], _entries(images, names, numbers, starts, ends))
  captions = [c for video in annotations.videos.values() for c in video.captions]
  full = int((numbers != 0).all(axis=1).sum()) if numbers.shape[1] else 0
  unknown = sum(UNKNOWN in caption.split() for caption in captions)
  if unknown or full:
    annotations.notes.append(
      f'{unknown} of {len(captions)} captions have {UNKNOWN} in place of a rare word, and {full} '
      f'have all {numbers.shape[1]} words and may be cut; references should come from the text '
      '(--format=karpathy)'
    )


def _words(path: pathlib.Path) -> tuple[dict[int, str], list]:
  """Words by number, and the images."""
  data = read_json(path)
  words = data.get('ix_to_word') if isinstance(data, dict) else None
  if not isinstance(words, dict) or not isinstance(data.get('images'), list):
    raise DataError(f'{path}: not a cocotalk file: it needs "ix_to_word" and a list "images"')
  names = {}
  for number, word in words.items():
    if not (number.isdecimal() and isinstance(word, str)):
      raise DataError(f'{path}: ix_to_word: {number!r}: {word!r} is not a number and its word')
    names[int(number)] = word
  return names, data['images']


def _labels(path: pathlib.Path) -> tuple[np.ndarray, ...]:
  """(captions, words) numbers, and (images,) first and last caption."""
  import h5py  # not needed for other forms

  try:
    with h5py.File(path, 'r') as file:
      if lacking := [name for name in _NUMBERS if name not in file]:
        raise DataError(f'{path}: no HDF5 data set {", ".join(lacking)}')
      numbers, starts, ends = (np.asarray(file[name][()]) for name in _NUMBERS)
  except DataError:
    raise
  except Exception as error:  # OSError, RuntimeError … by the kind of damage.
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise DataError(f'{path}: cannot be read as HDF5: {why}') from None
  whole = all(array.dtype.kind in 'iu' for array in (numbers, starts, ends))
  if not whole or numbers.ndim != 2 or starts.ndim != 1 or starts.shape != ends.shape:
    raise DataError(
      f'{path}: "labels" must be a table of whole numbers, "label_start_ix" and "label_end_ix" '
      f'two equally long lists; found {numbers.shape}, {starts.shape}, {ends.shape}'
    )
  return numbers, starts, ends


def _entries(images, names, numbers, starts, ends) -> Iterator[Located]:
  for i, (image, start, end) in enumerate(zip(images, starts.tolist(), ends.tolist(), strict=True)):
    where = f'images[{i}]'
    if not isinstance(image, dict):
      yield where, 'not an object'
      continue
    if not 1 <= start <= end + 1 <= len(numbers) + 1:
      yield where, f'its captions are {start} to {end} of {len(numbers)}'
      continue
    rows = [row[row != 0].tolist() for row in numbers[start - 1 : end]]
    if unknown := {n for row in rows for n in row if n not in names}:
      yield where, f'no word has the number {min(unknown)}'
      continue
    captions = [' '.join(names[n] for n in row) for row in rows]
    yield where, Entry(image.get('id'), captions, split_of(image), source=image.get('file_path'))
