"""Captions by id, as JSON and as pickles."""

import pickle

import numpy as np
import pytest

from tests.pytorch_projects import put
from tests.vidcap_jax.annotations.written import listing, refused, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


def test_captions_by_video(tmp_path):
  data = {'vid1': ['a dog', 'a dog'], 'vid2': 'a cat', 'vid3': []}
  found = read_annotations('json', [write(tmp_path / 'a.json', data)])
  assert listing(found) == [
    ('vid1', None, ['a dog', 'a dog']),
    ('vid2', None, ['a cat']),
    ('vid3', None, []),
  ]
  refused('json', write(tmp_path / 'a.json', '{"a": ["b"], "a": ["c"]}'), 'twice in one object: a')
  refused('json', write(tmp_path / 'a.json', {'a': [{'text': 'b'}]}), "'a': captions")
  refused('json', write(tmp_path / 'a.json', ['a']), r'\[0\]: not a JSON object')
  refused('json', write(tmp_path / 'a.json', '"a"'), 'captions by id')


def test_a_list_of_objects(tmp_path):
  data = [{'image_id': 1, 'id': 7, 'caption': 'a dog'}, {'image_id': 1.0, 'captions': ['a cat']}]
  found = read_annotations('json', [write(tmp_path / 'val.json', data)])
  assert listing(found) == [('1', 'val', ['a dog', 'a cat'])]


def test_pickles_of_python_2(tmp_path):
  """CAP.pkl of POS-CG: texts are bytes there."""
  caption = {'image_id': 'vid1', 'cap_id': 0, 'caption': 'A man.', 'tokenized': 'a man'}
  code = pickle.dumps({'vid1': [caption]}, 2).replace(b'X\x04\0\0\0vid1', b'U\x04vid1')
  file = put(f'{tmp_path}/CAP.pkl', code.replace(b'X\x06\0\0\0A man.', b'U\x06A man.'))
  found = read_annotations('pickle', [str(file)])
  assert found.videos['vid1'].captions == ['A man.']


@pytest.mark.parametrize(
  ('contents', 'match'),
  [
    ({'a': 'x'}, None),
    ({'a': {'captions': 'x'}}, None),
    ({'a': [{'text': 'x'}]}, "'a': captions are neither"),
    ({'a': [['x', 1]]}, "'a': captions are neither"),
    ({'a': {'b': {'c': 'x'}}}, "'a': captions are neither"),
    ({'a': 1}, "'a': captions are neither"),
    (['a'], 'not a JSON object'),
    ({('a', 1): ['x']}, 'video id'),
    ({'a': [[[[[[[[['x']]]]]]]]]}, 'nested too deep'),
    ({'a': np.zeros(2)}, "'a': captions are neither"),
    ({'a': np.float32}, 'refuses to load'),
  ],
)
def test_forms_of_captions_by_id(tmp_path, contents, match):
  file = str(put(f'{tmp_path}/a.pkl', pickle.dumps(contents)))
  if match is None:
    assert read_annotations('pickle', [file]).videos['a'].captions == ['x']
    return
  with pytest.raises(DataError, match=match) as caught:
    read_annotations('pickle', [file])
  assert file in str(caught.value)
