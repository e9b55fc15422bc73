"""Which split a video belongs to, by annotations, lists and files."""

import json

import pytest

from tests.pytorch_projects import put
from tests.vidcap_jax.annotations.written import write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.annotations.model import AnnotatedVideo, Annotations
from vidcap_jax.annotations.splits import assign, choose, read_id_map, read_splits, shared_sources
from vidcap_jax.errors import DataError

MSRVTT = {
  'info': {'version': '1.0'},
  'videos': [
    {'category': 9, 'url': 'u', 'video_id': 'video1', 'start time': 1.0, 'split': 'train', 'id': 1},
    {'category': 0, 'video_id': 'video0', 'split': 'validate'},
    {'video_id': 'video2', 'split': 'test'},
    {'video_id': 'video3'},
  ],
  'sentences': [
    {'caption': 'a man sings', 'video_id': 'video0', 'sen_id': 4},
    {'caption': 'a dog', 'video_id': 'video1', 'sen_id': 1},
    {'caption': ' ', 'video_id': 'video1', 'sen_id': 2},
    {'caption': 'a dog\nruns', 'video_id': 'video1', 'sen_id': 0},
  ],
}


def test_split_file(tmp_path):
  file = write(tmp_path / 's.json', '{"training": ["b", 7], "dev": ["a"], "extra": []}')
  assert read_splits([file]) == {'train': ['b', '7'], 'val': ['a'], 'extra': []}


@pytest.mark.parametrize(
  ('text', 'match'),
  [
    ('[', 'not a JSON file'),
    ('["a"]', 'a split file is'),
    ('{"train": "a"}', 'a split file is'),
    ('{"val": ["a"], "dev": ["b"]}', "split 'val' .*twice"),
    ('{"train": ["a", "b"], "val": ["b"]}', r'listed twice: b \(train and val\)'),
    ('{"train": ["a", "a"]}', r'listed twice: a \(train and train\)'),
    ('{"train": [null]}', "s.json: split 'train': no video id"),
  ],
)
def test_split_file_faults(tmp_path, text, match):
  with pytest.raises(DataError, match=match):
    read_splits([write(tmp_path / 's.json', text)])
  with pytest.raises(DataError, match='no such split file, nor one of msrvtt, msvd'):
    read_splits([tmp_path / 'none.json'])


def test_assignment(tmp_path):
  found = read_annotations('msrvtt', [write(tmp_path / 'a.json', json.dumps(MSRVTT))])

  def named(result):
    splits, rest = result
    return {s: [v.video_id for v in part] for s, part in splits.items()}, [v.video_id for v in rest]

  own = {'train': ['video1'], 'val': ['video0'], 'test': ['video2']}
  assert named(assign(found)) == (own, ['video3'])
  # A split file is followed; its order is the annotation's, unannotated videos come last.
  listed = {'train': ['new', 'video2', 'video0'], 'test': ['video3']}
  expected = {'train': ['video0', 'video2', 'new'], 'test': ['video3']}
  assert named(assign(found, listed)) == (expected, ['video1'])
  everything = ['video1', 'video0', 'video2', 'video3']
  assert named(assign(found, everything='dev')) == ({'val': everything}, [])
  with pytest.raises(DataError, match="'0', '1', '2', … .*'video1', 'video0', 'video2', …"):
    assign(found, {'train': ['0', '1', '2', '3']})


def test_no_splits_anywhere(tmp_path):
  found = read_annotations('csv', [write(tmp_path / 'a.csv', 'id,caption\na,b\n')])
  with pytest.raises(DataError, match='--splits=FILE.*--split=train'):
    assign(found)


def test_id_map(tmp_path):
  file = write(tmp_path / 'map.txt', '-4wsuPCjDBc_5_15 vid1\n\nabc vid2\n')
  names = {'vid1': '-4wsuPCjDBc_5_15', 'vid2': 'abc'}
  assert read_id_map(file) == names | {other: name for name, other in names.items()}
  with pytest.raises(DataError, match='line 1: not "other_name id"'):
    read_id_map(write(tmp_path / 'b.txt', 'a b c'))
  with pytest.raises(DataError, match="line 2: 'x' has two other names"):
    read_id_map(write(tmp_path / 'c.txt', 'a x\nb x'))
  with pytest.raises(DataError, match='no such id map'):
    read_id_map(tmp_path / 'none.txt')


def test_lists_of_ids_as_json(tmp_path):
  file = put(f'{tmp_path}/valid.list', '[\n  "video7", \n  "video8"\n]\n')
  assert read_splits([file]) == {'val': ['video7', 'video8']}
  file.write_text('["video7"')
  with pytest.raises(DataError, match='not a JSON list, though it begins like one'):
    read_splits([file])


def annotation(ids) -> Annotations:
  return Annotations({i: AnnotatedVideo(i, ['a']) for i in ids})


@pytest.mark.parametrize(
  ('name', 'text', 'match'),
  [
    ('ids.txt', 'a', 'ids.txt: .*split'),
    ('train.txt', 'a\nb\na', r'listed twice: a \(train and train\)'),
    ('train.csv', 'name\na', 'train.csv: .*video_id or video or .*found: name'),
    ('train.csv', 'id,x\na\n', 'line 2: not 2 fields'),
  ],
)
def test_list_faults(tmp_path, name, text, match):
  (tmp_path / name).write_text(text)
  with pytest.raises(DataError, match=match):
    choose(str(tmp_path / name), annotation([]), {})


def test_annotations_marked_train_throughout_need_splits(tmp_path):
  videos = [{'video_id': f'video{n}', 'split': 'train'} for n in (0, 6513)]
  (tmp_path / 'a.json').write_text(json.dumps({'videos': videos}))
  found = read_annotations('msrvtt', [str(tmp_path / 'a.json')])
  with pytest.raises(DataError, match=r'"train".*--splits=msrvtt\|msvd'):
    assign(found)
  assert choose('msrvtt', found, {}) == {'train': ['video0'], 'val': ['video6513']}


def test_sources_with_clips_in_two_splits():
  videos = {
    'train': [AnnotatedVideo('a', source='s'), AnnotatedVideo('b', source='t')],
    'val': [AnnotatedVideo('c', source='s'), AnnotatedVideo('d'), AnnotatedVideo('e')],
  }
  (note,) = shared_sources(videos)
  assert note == '1 sources have clips in several splits (first: s, in train and val)'
  del videos['train'][0]
  assert shared_sources(videos) == []
