"""Every form of captions file."""

import json

import pytest

from vidcap_jax.annotations import caption_files
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import DataError

CAPTIONS = {'v1': 'a dog\u2028runs', '2': ''}

MSRVTT = {
  'videos': [
    {'video_id': 'video0', 'split': 'train'},
    {'video_id': 'video1', 'split': 'test'},
    {'video_id': 'video2', 'split': 'test'},
  ],
  'sentences': [
    {'sen_id': 0, 'video_id': 'video1', 'caption': 'one'},
    {'sen_id': 1, 'video_id': 'video0', 'caption': 'two'},
    {'sen_id': 2, 'video_id': 'video1', 'caption': 'three'},
  ],
}


def write(path, content):
  path.write_text(content if isinstance(content, str) else json.dumps(content))
  return path


@pytest.mark.parametrize(
  'content',
  [
    [{'video_id': v, 'caption': c, 'log_prob': -1.5} for v, c in CAPTIONS.items()],
    CAPTIONS,
    {v: [c] for v, c in CAPTIONS.items()},
    {v: [{'caption': c}] for v, c in CAPTIONS.items()},
    [{'image_id': int(v) if v.isdigit() else v, 'caption': c} for v, c in CAPTIONS.items()],
    {'predictions': [{'image_id': v, 'caption': c} for v, c in CAPTIONS.items()], 'scores': {}},
    {'predictions': {v: [{'image_id': v, 'caption': c}] for v, c in CAPTIONS.items()}, 'n': 2},
  ],
)
def test_hypotheses_as_json(tmp_path, content):
  assert caption_files.read_hypotheses(write(tmp_path / 'h.json', content)) == CAPTIONS


def test_a_video_may_be_named_as_the_wrapper_is(tmp_path):
  for said in ('a', ['a'], [{'caption': 'a'}]):
    path = write(tmp_path / 'h.json', {'predictions': said, 'v1': 'b'})
    assert caption_files.read_hypotheses(path) == {'predictions': 'a', 'v1': 'b'}


def test_hypotheses_as_lines_and_tables(tmp_path):
  lines = '\n'.join(json.dumps({'video_id': v, 'caption': c}) for v, c in CAPTIONS.items())
  assert caption_files.read_hypotheses(write(tmp_path / 'h.jsonl', lines + '\n\n')) == CAPTIONS
  tabs = ''.join(f'{v}\t{c}\n' for v, c in CAPTIONS.items())
  assert caption_files.read_hypotheses(write(tmp_path / 'h.txt', tabs)) == CAPTIONS
  table = '\ufeffcaption,video_id\n"a dog\u2028runs",v1\n,2\n'
  assert caption_files.read_hypotheses(write(tmp_path / 'h.csv', table)) == CAPTIONS


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('h.json', '{"v1": "a", "v1": "b"}', '1 keys appear more than once: v1'),
    ('h.json', [{'id': 'v1', 'caption': 'a'}] * 2, '1 ids are named more than once: v1'),
    ('h.json', {'v1': ['a', 'b'], 'v2': []}, '2 videos do not have exactly one caption: v1, v2'),
    ('h.txt', 'v1\ta\nv1\tb\n', '1 ids are named more than once: v1'),
    ('h.txt', 'v1 a dog\n', r'h\.txt, line 1: expected id, tab, caption'),
    ('h.jsonl', '{"id": "v1", "caption": "a"}\n{"id":', r'h\.jsonl, line 2 is not JSON'),
    ('h.json', '[{"caption": "a"}]', r'item 0: no id \(one of video_id'),
    ('h.json', '[{"id": "v1"}]', 'item 0: no caption'),
    ('h.json', '{"v1": 3}', 'v1: expected a caption or a list of captions'),
    ('h.json', '["a dog"]', 'item 0: no id'),
    ('h.json', '"a dog"', 'expected a json object or list'),
    ('h.json', '{}', 'holds no captions'),
    (
      'h.csv',
      'id,caption\nv1,a dog, runs\n',
      'row 1: not the 2 fields of its first line; a caption',
    ),
    ('h.csv', 'id,caption\nv1\n', 'row 1: not the 2 fields'),
    ('h.csv', 'id;caption\nv1;a\n', 'row 1: no id .*; it has: id;caption'),
    ('h.doc', 'x', r'unknown kind of captions file; known: \.json'),
  ],
)
def test_bad_hypotheses_are_refused(tmp_path, name, content, message):
  with pytest.raises(DataError, match=message):
    caption_files.read_hypotheses(write(tmp_path / name, content))


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ({**MSRVTT, 'videos': [{'id': 7}]}, r'video 0: no id \(video_id\); it has: id'),
    ({**MSRVTT, 'videos': ['video0']}, r'video 0: no id \(video_id\)'),
    ({**MSRVTT, 'videos': {'video0': 'train'}}, "a list under 'videos', got dict"),
    ({**MSRVTT, 'videos': [{'video_id': 'v', 'split': 3}]}, 'video 0: split is 3, not a name'),
    ({**MSRVTT, 'videos': [{'video_id': ['v']}]}, r"video 0: the id \['v'\] is neither a text"),
    ({**MSRVTT, 'sentences': [3]}, 'sentence 0: no id'),
    ({'images': [{'file_name': 'a'}], 'annotations': []}, r'image 0: no id \(id\); it has: file'),
    ({'images': 7, 'annotations': []}, "a list under 'images', got int"),
    ({'annotations': [{'image_id': {}, 'caption': 'a'}]}, 'annotation 0: the id {} is neither'),
    ([{'id': 'v', 'caption': 'a', 'split': ['test']}], r"item 0: split is \['test'\], not a name"),
  ],
)
def test_bad_references_are_refused(tmp_path, content, message):
  with pytest.raises(DataError, match=rf'r\.json.*{message}'):
    caption_files.read_references(write(tmp_path / 'r.json', content))


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'{"val": {"video0": 1}}', "a list under 'val', got dict"),
    (b'{"val": null}', "a list under 'val', got NoneType"),
    (b'["video0"]', "no split 'val'; it has: not a json object"),
    (b'{"val":', 'is not JSON'),
    (b'{"val": ["\xe9"]}', 'is not UTF-8'),
    (None, 'No such file'),
  ],
)
def test_bad_splits_files_are_refused(tmp_path, content, message):
  path, splits = write(tmp_path / 'r.json', MSRVTT), tmp_path / 's.json'
  if content is not None:
    splits.write_bytes(content)
  with pytest.raises(DataError, match=rf's\.json.*{message}'):
    caption_files.read_references(path, 'val', splits)


def test_a_field_that_no_table_has_is_refused(tmp_path):
  path = write(tmp_path / 'r.csv', f'id,caption\nv1,{"a" * 200_000}\n')
  with pytest.raises(DataError, match='r.csv is not CSV: field larger'):
    caption_files.read_references(path)


def test_a_split_has_several_spellings(tmp_path):
  """Those of the build; what is spelled as asked for comes first."""
  videos = [{'video_id': f'video{i}', 'split': s} for i, s in enumerate(['train', 'validate'])]
  path = write(tmp_path / 'r.json', {**MSRVTT, 'videos': videos})
  for split in ('val', 'validate', 'Validation'):
    assert caption_files.read_references(path, split) == {'video1': ['one', 'three']}
  splits = write(tmp_path / 's.json', {'dev': ['video0'], 'valid': ['video1']})
  assert list(caption_files.read_references(path, 'val', splits)) == ['video0', 'video1']
  assert list(caption_files.read_references(path, 'valid', splits)) == ['video1']


def test_text_that_is_not_utf8_is_refused(tmp_path):
  (tmp_path / 'h.txt').write_bytes(b'v1\tcaf\xe9\n')
  with pytest.raises(DataError, match='not UTF-8'):
    caption_files.read_hypotheses(tmp_path / 'h.txt')


def test_msrvtt_references_by_split(tmp_path):
  path = write(tmp_path / 'r.json', MSRVTT)
  # A video without sentences is kept, so that scoring can refuse it.
  assert caption_files.read_references(path, 'test') == {'video1': ['one', 'three'], 'video2': []}
  assert list(caption_files.read_references(path)) == ['video0', 'video1', 'video2']
  splits = write(tmp_path / 's.json', {'val': ['video0'], 'bad': ['video0', 'video9']})
  assert caption_files.read_references(path, 'val', splits) == {'video0': ['two']}
  with pytest.raises(DataError, match="lacks 1 of the 2 videos of split 'bad': video9"):
    caption_files.read_references(path, 'bad', splits)
  with pytest.raises(DataError, match="no split 'x'; it has: val, bad"):
    caption_files.read_references(path, 'x', splits)
  with pytest.raises(DataError, match="no split 'val'; it names: test, train"):
    caption_files.read_references(path, 'val')
  with pytest.raises(DataError, match='no split was named'):
    caption_files.read_references(path, None, splits)


@pytest.mark.parametrize(
  ('name', 'content'),
  [
    ('r.json', {'a': ['x', 'y'], '7': ['z']}),
    (
      'r.json',
      {
        'images': [{'id': 'a'}, {'id': 7}],
        'annotations': [
          {'image_id': i, 'id': n, 'caption': c}
          for n, (i, c) in enumerate([('a', 'x'), (7, 'z'), ('a', 'y')])
        ],
      },
    ),
    ('r.txt', 'a\tx\na\ty\n7\tz\n'),
    ('r.csv', 'video_id,caption,split\na,x,test\n7,z,test\na,y,test\n'),
    ('r.jsonl', '{"video_id": "a", "captions": ["x", "y"]}\n{"video_id": 7, "caption": "z"}\n'),
  ],
)
def test_references_of_every_form(tmp_path, name, content):
  want = {'a': ['x', 'y'], '7': ['z']}
  assert caption_files.read_references(write(tmp_path / name, content)) == want


def test_references_of_a_data_set(tiny_data, tmp_path):
  want = {v.video_id: list(v.captions) for v in open_split(tiny_data, 'val')}
  for split in ('val', 'validation'):
    assert caption_files.read_references(tiny_data, split) == want
  for split in (None, 'x'):
    with pytest.raises(DataError, match='name one of its splits, train, val, test'):
      caption_files.read_references(tiny_data, split)
  with pytest.raises(DataError, match='has splits of its own'):
    caption_files.read_references(tiny_data, 'val', tmp_path / 's.json')
  with pytest.raises(DataError, match='is not a data set'):
    caption_files.read_references(tmp_path, 'val')
