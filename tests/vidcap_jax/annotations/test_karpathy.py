"""Karpathy's form of COCO."""

import pytest

from tests.pytorch_projects import put
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


@pytest.mark.parametrize(
  ('image', 'match'),
  [
    ({'cocoid': 1, 'sentences': [{'tokens': ['a', 1]}]}, r'images\[0\]: sentences\[0\]: no text'),
    ({'cocoid': 1, 'sentences': 'a'}, '"sentences" is not a list of objects'),
    ({'sentences': []}, 'no video id'),
    ('a', 'not an object'),
  ],
)
def test_files_of_another_form_are_refused(tmp_path, image, match):
  file = str(put(f'{tmp_path}/a.json', {'images': [image]}))
  with pytest.raises(DataError, match=match):
    read_annotations('karpathy', [file])


def test_tokens_are_used_if_there_is_no_text(tmp_path):
  image = {'imgid': 3, 'sentences': [{'tokens': ['a', 'man']}]}
  file = str(put(f'{tmp_path}/a.json', {'images': [image]}))
  assert read_annotations('karpathy', [file]).videos['3'].captions == ['a man']
