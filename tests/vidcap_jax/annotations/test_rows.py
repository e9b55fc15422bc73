"""One caption a row, as JSON lines and as a table."""

import json

import pytest

from tests.vidcap_jax.annotations.written import with_categories, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


def test_jsonl(tmp_path):
  rows = [
    {'video_id': 'b', 'caption': 'one &amp; two', 'split': 'Training', 'category': 2},
    {'video': 'a', 'sentence': 'three', 'split': 'dev'},
    {'id': 7, 'captions': ['four', '', 'five'], 'split': 'test'},
    {'video_id': 'b', 'caption': 'six'},
    {'video_id': 'c', 'split': 'holdout_1'},
  ]
  text = '\ufeff' + '\n\n'.join(json.dumps(row) for row in rows)
  found = read_annotations('jsonl', [write(tmp_path / 'a.jsonl', text)])
  assert with_categories(found) == [
    ('b', 'train', 2, ['one & two', 'six']),
    ('a', 'val', -1, ['three']),
    ('7', 'test', -1, ['four', 'five']),
    ('c', 'holdout_1', -1, []),
  ]
  assert {reason: len(ids) for reason, ids in found.left_out.items()} == {'empty': 1}


@pytest.mark.parametrize(
  ('line', 'match'),
  [
    ('{"video_id": "a"', 'line 2: not JSON'),
    ('["a", "b"]', 'line 2: not a JSON object'),
    ('{"caption": "a"}', 'line 2: no id'),
    ('{"video_id": " ", "caption": "a"}', 'line 2: no video id'),
    ('{"video_id": "a\\u0000b"}', 'line 2: the video id .* holds control characters'),
    ('{"video_id": "a", "caption": "b", "captions": ["c"]}', 'line 2: .*caption and captions'),
    ('{"video_id": "a", "caption": "b", "caption": "c"}', 'twice in one object: caption'),
    ('{"id": "a", "id": "b", "split": "c", "split": "d"}', '2 keys .*: id, split'),
    ('{"video_id": "a", "caption": 3}', 'line 2: captions are neither'),
    ('{"video_id": "a", "caption": ["a", 3]}', 'line 2: captions are neither'),
    ('{"video_id": "a", "split": 3}', '"split" is 3'),
    ('{"video_id": "a", "split": "a-b"}', "line 2: split name 'a-b'"),
    ('{"video_id": "a", "category": -1}', '"category" is -1'),
    ('[' * 100_000, 'line 2: not JSON'),
  ],
)
def test_jsonl_faults(tmp_path, line, match):
  file = write(tmp_path / 'a.jsonl', '{"video_id": "x", "caption": "y"}\n' + line)
  with pytest.raises(DataError, match=match) as caught:
    read_annotations('jsonl', [file])
  assert file in str(caught.value)


def test_csv(tmp_path):
  text = (
    '\ufeffid, caption,split,category\r\n'
    'a,"one, ""two""\r\nthree",train,4\r\n'
    'b,,test,\r\n'
    'a,four,,\r\n'
  )
  found = read_annotations('csv', [write(tmp_path / 'a.csv', text)])
  assert with_categories(found) == [
    ('a', 'train', 4, ['one, "two" three', 'four']),
    ('b', 'test', -1, []),
  ]
  tabs = read_annotations('csv', [write(tmp_path / 'a.tsv', 'video\tsentence\na\tone, two\n')])
  assert with_categories(tabs) == [('a', None, -1, ['one, two'])]


@pytest.mark.parametrize(
  ('text', 'match'),
  [
    ('', 'found: nothing'),
    ('a,one\nb,two\n', 'video_id or video or .*found: a, one'),
    ('id,text\na,one\n', 'caption or sentence'),
    ('Video_ID,caption\na,one\n', 'video_id in place of Video_ID'),
    ('id,Caption\na,one\n', 'caption in place of Caption'),
    ('image,caption\na.jpg,one\n', '--format=flickr'),
    ('id,caption,id\na,one,b\n', 'twice: id, caption, id'),
    ('id,caption\na\nb,c,d\ne,f\n', 'line 2: not 2 fields.*line 3: not 2'),
    ('id,caption\na,"one" two\n', 'line 2: not CSV'),
    ('id,caption\n,one\n', 'line 2: no video id'),
    ('id,caption,category\na,one,music\n', 'line 2: "category" is \'music\''),
    (b'id,caption\na,caf\xe9\n', 'not UTF-8 text at byte 16'),
  ],
)
def test_csv_faults(tmp_path, text, match):
  file = write(tmp_path / 'a.csv', text)
  with pytest.raises(DataError, match=match) as caught:
    read_annotations('csv', [file])
  assert file in str(caught.value)
