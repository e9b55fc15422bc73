import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.annotations import FORMATS, read_annotations
from vidcap_jax.annotations.model import normalize_split
from vidcap_jax.annotations.splits import assign, read_id_map, read_splits
from vidcap_jax.annotations.text import clean, script
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


def write(path, content):
  path.write_bytes(content if isinstance(content, bytes) else content.encode())
  return str(path)


def listing(annotations):
  return [(v.video_id, v.split, v.category, v.captions) for v in annotations.videos.values()]


def test_msrvtt(tmp_path):
  found = read_annotations('msrvtt', [write(tmp_path / 'a.json', json.dumps(MSRVTT))])
  assert listing(found) == [
    ('video1', 'train', 9, ['a dog', 'a dog runs']),
    ('video0', 'val', 0, ['a man sings']),
    ('video2', 'test', -1, []),
    ('video3', None, -1, []),
  ]
  assert {reason: len(ids) for reason, ids in found.left_out.items()} == {'empty': 1}


def test_msrvtt_test_file_without_sentences_beside_the_first(tmp_path):
  test = {'videos': [{'video_id': 'video9', 'split': 'test', 'category': 3}]}
  files = [
    write(tmp_path / 'a.json', json.dumps(MSRVTT)),
    write(tmp_path / 'b.json', json.dumps(test)),
  ]
  found = read_annotations('msrvtt', files)
  assert listing(found)[-1] == ('video9', 'test', 3, [])
  assert len(found.videos) == 5


@pytest.mark.parametrize(
  ('change', 'match'),
  [
    ({'videos': None}, 'needs an object with a list "videos"'),
    ({'videos': [], 'sentences': []}, 'no video in it'),
    ({'sentences': 3}, '"sentences" is not a list'),
    (
      {'videos': [{'video_id': [7]}, 3]},
      r'videos\[0\]: the video id \[7\] is not a text; videos\[1\]: not',
    ),
    ({'videos': [{'video_id': 'a', 'split': 1}]}, r'videos\[0\]: "split" is 1'),
    ({'videos': [{'video_id': 'a', 'category': 'music'}]}, r'"category" is \'music\''),
    (
      {'sentences': [{'video_id': 'a'}] * 7},
      r'sentences\[0\]: no text under "caption".*and 2 more',
    ),
    (
      {'videos': [{'video_id': 'a', 'split': 'val'}, {'video_id': 'a', 'split': 'test'}]},
      r"video 'a' is in split 'test' here and in 'val' before",
    ),
  ],
)
def test_msrvtt_faults(tmp_path, change, match):
  file = write(tmp_path / 'a.json', json.dumps({**MSRVTT, **change}))
  with pytest.raises(DataError, match=match) as caught:
    read_annotations('msrvtt', [file])
  assert file in str(caught.value)


def test_msvd_folder_and_files(tmp_path):
  train = write(tmp_path / 'sents_train_lc_nopunc.txt', 'vid1\ta dog\nvid2\ta cat\nvid1\tit runs\n')
  write(tmp_path / 'sents_val_lc_nopunc.txt', 'vid3\ta man\u2028sings\r\nvid3\t \n\n')
  write(tmp_path / 'sents_test_lc_nopunc.txt', 'vid4\ta\tb')
  write(tmp_path / 'sents_notes.txt', 'nothing')
  found = read_annotations('msvd', [str(tmp_path)])
  assert listing(found) == [
    ('vid1', 'train', -1, ['a dog', 'it runs']),
    ('vid2', 'train', -1, ['a cat']),
    ('vid3', 'val', -1, ['a man sings']),
    ('vid4', 'test', -1, ['a b']),
  ]
  assert {reason: len(ids) for reason, ids in found.left_out.items()} == {'empty': 1}
  assert len(read_annotations('msvd', [train]).videos) == 2


def test_msvd_faults(tmp_path):
  with pytest.raises(DataError, match='no file like sents_train'):
    read_annotations('msvd', [str(tmp_path)])
  with pytest.raises(DataError, match='must say its split'):
    read_annotations('msvd', [write(tmp_path / 'captions.txt', 'a\tb')])
  bad = write(tmp_path / 'sents_train.txt', 'vid1\ta\nvid2 a\n\tb\n')
  with pytest.raises(DataError, match='line 2: not "id<TAB>caption".*line 3'):
    read_annotations('msvd', [bad])
  write(tmp_path / 'sents_train.txt', 'vid1\ta')
  write(tmp_path / 'sents_test.txt', 'vid1\tb')
  with pytest.raises(DataError, match=r"sents_test.txt: line 1: video 'vid1'.*'train' before"):
    read_annotations('msvd', [str(tmp_path)])


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
  assert listing(found) == [
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
    ('{"video_id": "a", "caption": "b", "captions": ["c"]}', 'under caption and captions; which'),
    ('{"video_id": "a", "caption": "b", "caption": "c"}', 'twice in one object: caption'),
    ('{"video_id": "a", "caption": 3}', "captions of 'a' are neither"),
    ('{"video_id": "a", "caption": ["a", 3]}', "captions of 'a' are neither"),
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
  assert listing(found) == [('a', 'train', 4, ['one, "two" three', 'four']), ('b', 'test', -1, [])]
  tabs = read_annotations('csv', [write(tmp_path / 'a.tsv', 'video\tsentence\na\tone, two\n')])
  assert listing(tabs) == [('a', None, -1, ['one, two'])]


@pytest.mark.parametrize(
  ('text', 'match'),
  [
    ('', 'found: nothing'),
    ('a,one\nb,two\n', 'must name the columns, one of them video_id or video or id; found: a, one'),
    ('id,text\na,one\n', 'caption or sentence'),
    ('id,caption,id\na,one,b\n', 'there twice'),
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


def test_missing_file_and_unknown_format(tmp_path):
  with pytest.raises(DataError, match='no such annotation file'):
    read_annotations('csv', [str(tmp_path / 'none.csv')])
  with pytest.raises(DataError, match="'spice'; known: msrvtt, msvd, msvd_corpus, vatex, lsmdc"):
    read_annotations('spice', [str(tmp_path)])


@pytest.mark.parametrize('form', FORMATS)
def test_a_folder_where_a_file_belongs(tmp_path, form):
  for language in FORMATS[form]:
    with pytest.raises(DataError, match=str(tmp_path)):
      read_annotations(form, [str(tmp_path)], language)


def test_clean_makes_one_line():
  text = (
    '\ufeffa\r\nman\x0b\x0cis\u2028\u2029\x85 \x1c \tsinging \x00\x07\u200bnow &lt;3 &#39;ok&#39;'
  )
  assert clean(text) == "a man is singing now <3 'ok'"


@given(st.text())
def test_clean_leaves_nothing_that_breaks_lines(text):
  cleaned = clean(text)
  assert len(cleaned.splitlines()) <= 1
  assert cleaned == ' '.join(cleaned.split())


def test_what_clean_cannot_see_goes():
  # A soft hyphen, a direction mark, half of a surrogate pair, an entity for U+FEFF; joiners stay.
  assert clean('a\xad\u202e\ud83d &#xFEFF;&nbsp;b\u200dc') == 'a b\u200dc'
  assert clean('SOMEONE says &amp;lt;hi&gt;.') == 'SOMEONE says &lt;hi>.'  # entities once


def test_scripts():
  texts = ('a man', 'мужчина в TV', '一个男人', '1 2 3!', 'ein Mädchen', 'एक आदमी')
  assert [script(t) for t in texts] == ['Latin', 'Cyrillic', 'Han', '', 'Latin', 'Devanagari']


def test_split_names():
  for name in ('val', 'Valid', 'validation', 'validate', 'dev', ' VAL '):
    assert normalize_split(name) == 'val'
  assert normalize_split('train') == normalize_split('training') == 'train'
  assert normalize_split('test') == normalize_split('Testing') == 'test'
  assert normalize_split('public_test') == 'public_test'
  for name in ('', 'a/b', '1k', 'a b'):
    with pytest.raises(DataError, match='split name'):
      normalize_split(name)


def test_split_file(tmp_path):
  file = write(tmp_path / 's.json', '{"training": ["b", 7], "dev": ["a"], "extra": []}')
  assert read_splits([file]) == {'train': ['b', '7'], 'val': ['a'], 'extra': []}


@pytest.mark.parametrize(
  ('text', 'match'),
  [
    ('[', 'not a JSON file'),
    ('["a"]', 'a split file is'),
    ('{"train": "a"}', 'a split file is'),
    ('{"val": ["a"], "dev": ["b"]}', "split 'val' is there twice"),
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
  with pytest.raises(DataError, match="'0', '1', '2', … there, 'video1', 'video0', 'video2', …"):
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
