"""Reading the captions to score, and references, from every form of file."""

import json
import pathlib
import re

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


def test_a_video_may_be_called_predictions(tmp_path):
  for output in ('a', ['a'], [{'caption': 'a'}]):
    path = write(tmp_path / 'h.json', {'predictions': output, 'v1': 'b'})
    assert caption_files.read_hypotheses(path) == {'predictions': 'a', 'v1': 'b'}


def test_hypotheses_as_lines_and_tables(tmp_path):
  lines = '\n'.join(json.dumps({'video_id': v, 'caption': c}) for v, c in CAPTIONS.items())
  assert caption_files.read_hypotheses(write(tmp_path / 'h.jsonl', lines + '\n\n')) == CAPTIONS
  tabs = ''.join(f'{v}\t{c}\n' for v, c in CAPTIONS.items())
  assert caption_files.read_hypotheses(write(tmp_path / 'h.txt', tabs)) == CAPTIONS
  table = '\ufeffcaption,video_id\n"a dog\u2028runs",v1\n,2\n'
  assert caption_files.read_hypotheses(write(tmp_path / 'h.csv', table)) == CAPTIONS


def test_the_page_lists_every_kind_of_file():
  with pytest.raises(DataError, match='h.odd: .*known') as raised:
    caption_files.read_hypotheses('h.odd')
  suffixes = re.findall(r' (\.\w+)', str(raised.value))
  assert len(suffixes) > 6
  page = (pathlib.Path(__file__).parents[3] / 'docs' / 'evaluation.md').read_text()
  for suffix in suffixes:
    assert re.search(rf'^\| .*`\{suffix}`.* \|', page, re.MULTILINE), suffix


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('h.json', '{"v1": "a", "v1": "b"}', 'twice in one object: v1'),
    ('h.json', [{'id': 'v1', 'caption': 'a'}] * 2, r'1 video .*one caption: v1 \(2\)'),
    ('h.json', {'v1': ['a', 'b'], 'v2': []}, r'2 videos .*one caption: v1 \(2\), v2 \(0\)'),
    ('h.json', '[{"id": "v1"}]', r'one caption: v1 \(0\)'),
    ('h.txt', 'v1\ta\nv1\tb\n', r'one caption: v1 \(2\)'),
    ('h.txt', 'v1 a dog\n', 'line 1: .*id<TAB>caption'),
    ('h.jsonl', '{"id": "v1", "caption": "a"}\n{"id":', 'line 2: not JSON'),
    ('h.json', '[{"caption": "a"}]', r'\[0\]: no id.* video_id'),
    ('h.json', '{"v1": 3}', "^[^v]*h.json: 'v1': captions [^v]*$"),
    ('h.jsonl', '{"id": "v1", "caption": 3}', 'line 1: captions'),
    ('h.json', '["a dog"]', r'\[0\]: not a JSON object'),
    ('h.json', '"a dog"', 'captions by id'),
    ('h.json', '{}', 'no captions'),
    ('h.json', '{"predictions": []}', 'no captions'),
    ('h.csv', 'id,caption\nv1,a dog, runs\n', 'line 2: not 2 fields.*quote'),
    ('h.csv', 'id,caption\nv1\n', 'line 2: not 2 fields'),
    ('h.csv', 'id;caption\nv1;a\n', 'columns.* video_id .*found: id;caption'),
    ('h.doc', 'x', r'known: \.json'),
  ],
)
def test_bad_hypotheses_are_refused(tmp_path, name, content, message):
  with pytest.raises(DataError, match=message) as error:
    caption_files.read_hypotheses(write(tmp_path / name, content))
  assert name in str(error.value)


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    ({**MSRVTT, 'videos': [{'id': 7}]}, r'videos\[0\]: no video id'),
    ({**MSRVTT, 'videos': ['video0']}, r'videos\[0\]: not an object'),
    ({**MSRVTT, 'videos': {'video0': 'train'}}, '"videos" is not a list'),
    ({**MSRVTT, 'videos': [{'video_id': 'v', 'split': 3}]}, r'videos\[0\]: "split" is 3'),
    ({**MSRVTT, 'videos': [{'video_id': ['v']}]}, r"videos\[0\]: .*id \['v'\]"),
    ({**MSRVTT, 'sentences': [3]}, r'sentences\[0\]: not an object'),
    ({'images': [{'file_name': 'a'}], 'annotations': []}, r'images\[0\]: no video id'),
    ({'images': 7, 'annotations': []}, '"images" is not a list'),
    ({'annotations': [{'image_id': {}, 'caption': 'a'}]}, r'annotations\[0\]: .*id {}'),
    ([{'id': 'v', 'caption': 'a', 'split': ['test']}], r"\[0\]: \"split\" is \['test'\]"),
  ],
)
def test_bad_references_are_refused(tmp_path, content, message):
  with pytest.raises(DataError, match=rf'r\.json.*{message}'):
    caption_files.read_references(write(tmp_path / 'r.json', content))


@pytest.mark.parametrize(
  ('content', 'message'),
  [
    (b'{"val": {"video0": 1}}', 'split file'),
    (b'{"val": null}', 'split file'),
    (b'["video0"]', 'split file'),
    (b'{"val":', 'not a JSON file'),
    (b'{"val": ["\xe9"]}', 'not UTF-8'),
    (None, 'no such split file'),
  ],
)
def test_bad_splits_files_are_refused(tmp_path, content, message):
  path, splits = write(tmp_path / 'r.json', MSRVTT), tmp_path / 's.json'
  if content is not None:
    splits.write_bytes(content)
  with pytest.raises(DataError, match=rf's\.json.*{message}'):
    caption_files.read_references(path, 'val', splits)


def test_a_field_beyond_the_csv_limit_is_refused(tmp_path):
  path = write(tmp_path / 'r.csv', f'id,caption\nv1,{"a" * 200_000}\n')
  with pytest.raises(DataError, match='r.csv: line 2: not CSV: field larger'):
    caption_files.read_references(path)


def test_a_split_has_several_spellings(tmp_path):
  """As for building a data set, but an exact match has priority."""
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
  with pytest.raises(DataError, match="lacks 1 of .* 2 .*'bad': video9"):
    caption_files.read_references(path, 'bad', splits)
  with pytest.raises(DataError, match="s.json .*'x'.* val, bad"):
    caption_files.read_references(path, 'x', splits)
  with pytest.raises(DataError, match="r.json .*'val'.* train, test"):
    caption_files.read_references(path, 'val')
  with pytest.raises(DataError, match='s.json'):
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
    with pytest.raises(DataError, match='splits.* train, val, test'):
      caption_files.read_references(tiny_data, split)
  with pytest.raises(DataError, match='data set.*splits'):
    caption_files.read_references(tiny_data, 'val', tmp_path / 's.json')
  with pytest.raises(DataError, match='not a data set'):
    caption_files.read_references(tmp_path, 'val')


def test_a_header_above_tabs(tmp_path):
  """A header is no video, and a third column that it names is not part of the caption."""
  for name in ('r.txt', 'r.tsv'):
    text = '\ufeffvideo_id\tcaption\r\nv1\ta man\r\n'
    assert caption_files.read_references(write(tmp_path / name, text)) == {'v1': ['a man']}
    text = 'id\tcaption\tsplit\nv1\ta man\ttest\nv1\ta boy\t\nv2\ta dog\ttrain\n'
    path = write(tmp_path / name, text)
    assert caption_files.read_references(path, 'test') == {'v1': ['a man', 'a boy']}
  for text, place in (
    ('v1\ta man\ttest\n', 'line 1: .*split.* header'),
    ('video_id\ttext\nv1\ta man\n', 'columns.* caption .*found: video_id, text'),
  ):
    with pytest.raises(DataError, match=rf'r\.txt: .*{place}'):
      caption_files.read_references(write(tmp_path / 'r.txt', text))


def test_a_split_belongs_to_the_video(tmp_path):
  table = 'video_id,caption,split\nv1,a man one,train\nv2,a dog runs,val\nv2,a dog is running,\n'
  path = write(tmp_path / 'r.csv', table + 'v3,a cow,train\n')
  assert caption_files.read_references(path, 'val') == {'v2': ['a dog runs', 'a dog is running']}
  rows = [
    {'id': 'v2', 'caption': 'a dog runs', 'split': 'val'},
    {'id': 'v2', 'caption': 'a dog is running'},
    {'id': 'v3', 'caption': 'a cow', 'split': 'train'},
  ]
  for name, text in (('r.jsonl', '\n'.join(map(json.dumps, rows))), ('r.json', rows)):
    path = write(tmp_path / name, text)
    assert caption_files.read_references(path, 'val') == {'v2': ['a dog runs', 'a dog is running']}
  path = write(tmp_path / 'r.csv', table + 'v1,a cow,val\n')
  with pytest.raises(DataError, match=r"r\.csv: line 5: .*'v1'.*'val'.*'train'"):
    caption_files.read_references(path)


def test_a_lone_quote_in_csv_is_refused(tmp_path):
  rows = 'v1,"a person plays guitar on stage\nv2,a cat\nv2,"a dog" is running\n'
  path = write(tmp_path / 'r.csv', 'video_id,caption\n' + rows)
  with pytest.raises(DataError, match=r'r\.csv: line 2: .*quote'):
    caption_files.read_references(path)


def test_text_is_as_written(tmp_path):
  """Captions are scored as written, not as a data set cleans them."""
  text = ' a &amp; b\u200b '
  path = write(tmp_path / 'h.json', {'v1': text})
  assert caption_files.read_hypotheses(path) == {'v1': text}


def test_line_breaks_of_every_system(tmp_path):
  for line_break in ('\n', '\r\n', '\r', '\n\n'):
    text = line_break.join(['v1\ta man', 'v2\ta "dog', ''])
    path = tmp_path / 'h.txt'
    path.write_bytes(text.encode())
    assert caption_files.read_hypotheses(path) == {'v1': 'a man', 'v2': 'a "dog'}


def test_ids_as_numbers(tmp_path):
  path = write(tmp_path / 'h.json', [{'id': 7.0, 'caption': 'a'}, {'id': ' v1 ', 'caption': 'b'}])
  assert caption_files.read_hypotheses(path) == {'7': 'a', 'v1': 'b'}


def test_candidates_of_an_evaluation(tmp_path):
  candidates = [{'caption': 'a dog', 'log_prob': -1.0}, {'caption': 'a cat', 'log_prob': -2.0}]
  item = {'video_id': 'v1', 'caption': 'a dog', 'log_prob': -1.0, 'captions': candidates}
  assert caption_files.read_hypotheses(write(tmp_path / 'h.json', [item])) == {'v1': 'a dog'}


def test_the_split_in_a_files_name(tmp_path):
  path = write(tmp_path / 'captions_val.json', {'v1': ['a']})
  assert caption_files.read_references(path, 'val') == {'v1': ['a']}
  with pytest.raises(DataError, match="'test'.* val"):
    caption_files.read_references(path, 'test')


def test_references_of_a_named_form(tmp_path):
  path = write(tmp_path / 'a_test.json', [{'videoID': 'v1', 'enCap': ['a'], 'chCap': ['一']}])
  read = caption_files.read_references
  assert read(path, 'test', form='vatex', language='zh') == {'v1': ['一']}
  with pytest.raises(DataError, match='--language=en or --language=zh'):
    read(path, form='vatex')


def test_lists_of_ids_choose_a_split(tmp_path):
  path = write(tmp_path / 'r.json', MSRVTT)
  listed = write(tmp_path / 'val_list.txt', 'video_id\nvideo1\n')
  assert list(caption_files.read_references(path, 'val', listed)) == ['video1']


def test_a_split_belongs_to_the_video_not_to_the_row(tmp_path):
  rows = ['v1,a man one,train', 'v2,a dog runs,val', 'v2,a dog is running,', 'v3,a cow,train']
  path = tmp_path / 'r.csv'
  path.write_text('\n'.join(['video_id,caption,split', *rows]))
  assert caption_files.read_references(path, 'val') == {'v2': ['a dog runs', 'a dog is running']}


def test_a_lone_quote_is_refused_by_line(tmp_path):
  path = tmp_path / 'q.csv'
  path.write_text(
    'video_id,caption\nv1,"a person plays guitar on stage\nv1,x\nv2,"a dog" is running\n'
  )
  with pytest.raises(DataError, match='q.csv: line 2: .*quote'):
    caption_files.read_references(path)
