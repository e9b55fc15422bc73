"""Captions as numbers, in two files."""

import re

import h5py
import numpy as np
import pytest

from tests.pytorch_projects import put
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


def labels(tmp_path, **changes):
  images = [{'id': 7, 'split': 'train'}, {'id': 8, 'split': 'val'}]
  words = put(f'{tmp_path}/a.json', {'ix_to_word': {'1': 'a', '2': 'UNK'}, 'images': images})
  arrays = {
    'labels': np.array([[1, 2], [1, 0], [1, 1]], np.uint32),
    'label_start_ix': np.array([1, 3], np.uint32),
    'label_end_ix': np.array([2, 3], np.uint32),
    **changes,
  }
  file = tmp_path / 'a.h5'
  with h5py.File(file, 'w') as out:
    for name, array in arrays.items():
      if array is not None:
        out[name] = array
  return [str(words), str(file)]


def test_captions_as_numbers(tmp_path):
  found = read_annotations('cocotalk', labels(tmp_path))
  assert {v.video_id: (v.split, v.captions) for v in found.videos.values()} == {
    '7': ('train', ['a UNK', 'a']),
    '8': ('val', ['a a']),
  }
  (note,) = found.notes
  assert re.match('1 of 3 captions .*UNK.* 2 have all 2 words', note)


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'labels': None}, 'a.h5: .* labels'),
    ({'labels': np.ones(3, int)}, r'a.h5: "labels" must be a table .* found \(3,\)'),
    ({'labels': np.ones((3, 2))}, 'table of whole numbers'),
    ({'label_start_ix': np.array([1])}, 'equally long lists'),
    ({'labels': np.full((3, 2), 9)}, r'a.json: images\[0\]: no word has the number 9'),
    ({'label_end_ix': np.array([2, 4])}, r'images\[1\]: its captions are 3 to 4 of 3'),
    ({'label_start_ix': np.array([0, 3])}, r'images\[0\]: its captions are 0 to 2 of 3'),
    (
      {'label_start_ix': np.array([1]), 'label_end_ix': np.array([1])},
      'a.json has 2 images, .*a.h5 has the captions of 1',
    ),
  ],
)
def test_bad_numbers_are_refused(tmp_path, changes, match):
  with pytest.raises(DataError, match=match):
    read_annotations('cocotalk', labels(tmp_path, **changes))


def test_the_form_of_two_files(tmp_path):
  files = labels(tmp_path)
  for given in (files[:1], files[1:], [*files, files[0]]):
    with pytest.raises(DataError, match='two files'):
      read_annotations('cocotalk', given)
  (tmp_path / 'a.h5').write_bytes(b'\x89HDF')
  with pytest.raises(DataError, match='cannot be read as HDF5'):
    read_annotations('cocotalk', files)
