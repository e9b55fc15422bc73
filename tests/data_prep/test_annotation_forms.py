"""The forms of public data sets, each by a small file in its exact schema."""

import json
import pathlib

import pytest

from vidcap_jax.annotations import FORMATS, read_annotations
from vidcap_jax.data.vocabulary import tokenize
from vidcap_jax.errors import DataError


def write(path, content):
  text = content if isinstance(content, str) else json.dumps(content)
  path.write_bytes(text.encode())
  return str(path)


def listing(annotations):
  return [(v.video_id, v.split, v.captions) for v in annotations.videos.values()]


def sources(annotations):
  return [v.source for v in annotations.videos.values()]


def refused(form, file, match, language=None):
  with pytest.raises(DataError, match=match) as caught:
    read_annotations(form, [file], language)
  assert file in str(caught.value)


def test_msrvtt_with_lists_of_captions_and_urls(tmp_path):
  data = {
    'videos': [
      {'video_id': 'video0', 'split': 'train', 'category': 9, 'url': 'https://y/watch?v=a'},
      {'video_id': 'video1', 'split': 'validate', 'category': 0, 'url': 'https://y/watch?v=b'},
    ],
    'sentences': [
      {'video_id': 'video0', 'caption': ['a dog', 'a dog', ''], 'sen_id': 0},
      {'video_id': 'video1', 'caption': 'a cat', 'sen_id': 1},
    ],
  }
  found = read_annotations('msrvtt', [write(tmp_path / 'a.json', data)])
  assert listing(found) == [('video0', 'train', ['a dog', 'a dog']), ('video1', 'val', ['a cat'])]
  assert sources(found) == ['https://y/watch?v=a', 'https://y/watch?v=b']
  assert found.left_out == {'empty': ['video0']}
  assert found.language == 'en'


def test_msrvtt_in_which_all_is_train_says_no_splits(tmp_path):
  videos = [{'video_id': f'video{n}', 'split': 'train'} for n in range(3)]
  found = read_annotations('msrvtt', [write(tmp_path / 'a.json', {'videos': videos})])
  assert listing(found) == [('video0', None, []), ('video1', None, []), ('video2', None, [])]
  assert found.undecided == 'every video of the annotation says "train"'


CORPUS = '''VideoID,Start,End,WorkerID,Source,AnnotationTime,Language,Description
-4wsuPCjDBc,5,15,22,clean,55,English,"a squirrel, eating
a ""peanut"""
-4wsuPCjDBc,5,15,23,unverified,20,German,ein Eichhörnchen
-4wsuPCjDBc,5,15,24,clean,21,English,белка ест
a_b,205,208,25,clean,9,English,
a_b,205,208,26,clean,9, english ,A chipmunk
c,1,2,27,clean,9,German,ein Hund
c,1,2,28,clean,9,,x
'''


def test_msvd_corpus(tmp_path):
  found = read_annotations('msvd_corpus', [write(tmp_path / 'corpus.csv', CORPUS)])
  assert listing(found) == [
    ('-4wsuPCjDBc_5_15', None, ['a squirrel, eating a "peanut"', 'белка ест']),
    ('a_b_205_208', None, ['A chipmunk']),
    ('c_1_2', None, []),
  ]
  assert sources(found) == ['-4wsuPCjDBc', 'a_b', 'c']
  assert found.left_out == {
    'in German': ['-4wsuPCjDBc_5_15', 'c_1_2'],
    'empty': ['a_b_205_208'],
    'in no named language': ['c_1_2'],
  }
  (note,) = found.notes
  assert note.startswith('1 captions are labelled English and written in Cyrillic letters;')
  assert note.endswith('corpus.csv: line 5)')


def test_msvd_corpus_faults(tmp_path):
  header = CORPUS.splitlines()[0]
  file = tmp_path / 'a.csv'
  refused('msvd_corpus', write(file, header.replace('Language', 'Lang')), 'one of them Language')
  refused(
    'msvd_corpus', write(file, header + '\na,1.5,2,,,,English,x'), r"line 2: no clip: .*Start '1.5'"
  )
  refused('msvd_corpus', write(file, header + '\na,1,2,,,,English,"x'), 'line 2: not CSV')


VATEX = [
  {
    'videoID': '-a_b-C_d_000005_000015',
    'enCap': ['A man runs.', 'He runs.'],
    'chCap': ['一个男人在跑步。', '他跑步。'],
  },
  {'videoID': 'xyz_000010_000020', 'enCap': ['A cat.'], 'chCap': [' ', '一只猫。']},
]


def test_vatex(tmp_path):
  train = write(tmp_path / 'vatex_training_v1.0.json', VATEX)
  test = [{'videoID': 'q_000000_000010', 'enCap': ['A cow.']}]
  public = write(tmp_path / 'vatex_public_test_english_v1.1.json', test)
  unseen = [{'videoID': 'r_000000_000010'}]
  private = write(tmp_path / 'vatex_private_test_without_annotations.json', unseen)
  english = read_annotations('vatex', [train, public, private], 'en')
  assert listing(english) == [
    ('-a_b-C_d_000005_000015', 'train', ['A man runs.', 'He runs.']),
    ('xyz_000010_000020', 'train', ['A cat.']),
    ('q_000000_000010', 'test', ['A cow.']),
    ('r_000000_000010', 'private_test', []),
  ]
  assert sources(english) == ['-a_b-C_d', 'xyz', 'q', 'r']
  chinese = read_annotations('vatex', [train], 'zh')
  assert [v.captions for v in chinese.videos.values()] == [VATEX[0]['chCap'], ['一只猫。']]
  assert (chinese.language, chinese.left_out) == ('zh', {'empty': ['xyz_000010_000020']})
  refused('vatex', public, 'no caption under "chCap" in .*is --language the right one', 'zh')
  # A test without captions at all is no such mistake.
  assert len(read_annotations('vatex', [private], 'zh').videos) == 1


def test_vatex_asks_for_the_language(tmp_path):
  file = write(tmp_path / 'vatex_validation_v1.0.json', VATEX)
  for language in (None, 'de'):
    with pytest.raises(DataError, match='give --language=en or --language=zh'):
      read_annotations('vatex', [file], language)
  refused('vatex', write(tmp_path / 'a.json', {'videoID': 'a'}), 'needs a list of objects', 'en')
  bad = [{'enCap': ['a']}, 'x', {'videoID': 'v', 'enCap': {'a': 1}}]
  expected = r"\[0\]: no video id; \[1\]: not an object; \[2\]: captions of 'v' are neither"
  refused('vatex', write(tmp_path / 'a.json', bad), expected, 'en')


LSMDC = '0001_American_Beauty_00.00.51.926-00.00.54.129'


def test_lsmdc(tmp_path):
  times = '00.00.51.926\t00.00.54.129\t00.00.51.926\t00.00.54.129'
  train = write(
    tmp_path / 'LSMDC16_annos_training.csv',
    f'{LSMDC}\t{times}\tSOMEONE lies in "bed, asleep.\r\n{LSMDC}\t{times}\tSOMEONE\'s dog.\n',
  )
  blind = write(tmp_path / 'LSMDC16_annos_blindtest.csv', f'3_X_00.1-00.2\t{times}\n')
  public = write(
    tmp_path / 'LSMDC16_challenge_1000_publictect.csv', f'9_Y_00.1-00.2\t{times}\tA car.'
  )
  found = read_annotations('lsmdc', [train, blind, public])
  assert listing(found) == [
    (LSMDC, 'train', ['SOMEONE lies in "bed, asleep.', "SOMEONE's dog."]),
    ('3_X_00.1-00.2', 'blind_test', []),
    ('9_Y_00.1-00.2', 'test', ['A car.']),
  ]
  assert sources(found) == ['0001_American_Beauty', '3_X', '9_Y']
  assert tokenize(found.videos[LSMDC].captions[1]) == ['someone', "'s", 'dog']


def test_mvad(tmp_path):
  file = write(tmp_path / 'corpus_M-VAD_valid.txt', 'MOVIE_DVS1\tSOMEONE nods.\nMOVIE_DVS2\t \n')
  found = read_annotations('lsmdc', [file])
  assert listing(found) == [('MOVIE_DVS1', 'val', ['SOMEONE nods.']), ('MOVIE_DVS2', 'val', [])]
  assert found.left_out == {'empty': ['MOVIE_DVS2']}
  refused('lsmdc', write(tmp_path / 'a.csv', 'a\tb\tc\n\tx\n'), 'line 1: not "clip.*line 2: no vid')


def test_coco(tmp_path):
  data = {
    'info': {},
    'licenses': [],
    'type': 'captions',
    'images': [{'id': 7, 'file_name': 'v7.mp4'}, {'id': 'video8', 'split': 'test'}],
    'annotations': [
      {'image_id': 7, 'id': 0, 'caption': 'a dog'},
      {'image_id': 'video8', 'id': 1, 'caption': 'a cat'},
      {'image_id': 7, 'id': 2, 'caption': 'it runs'},
    ],
  }
  found = read_annotations('coco', [write(tmp_path / 'captions_val2014.json', data)])
  assert listing(found) == [('7', 'val', ['a dog', 'it runs']), ('video8', 'test', ['a cat'])]
  assert sources(found) == ['v7.mp4', None]
  data['annotations'] += [{'image_id': 9, 'caption': 'x'}, {'image_id': 7}]
  expected = r'annotations\[3\]: "image_id" is 9, which no image has; .*\[4\]: no text under'
  refused('coco', write(tmp_path / 'a.json', data), expected)
  refused('coco', write(tmp_path / 'a.json', [data]), 'not a COCO file')


def test_activitynet(tmp_path):
  data = {
    'v_Qa_b': {
      'duration': 55.15,
      'timestamps': [[0.28, 55.15], [13.79, 54.32]],
      'sentences': ['A man is in a gym. ', ' He lifts a bar.'],
    },
    'v_x': {'duration': 3, 'timestamps': [[0, 1.5]]},
  }
  train = write(tmp_path / 'train.json', data)
  found = read_annotations('activitynet', [train])
  assert listing(found) == [
    ('v_Qa_b_segment_00', 'train', ['A man is in a gym.']),
    ('v_Qa_b_segment_01', 'train', ['He lifts a bar.']),
    ('v_x_segment_00', 'train', []),
  ]
  assert sources(found) == ['v_Qa_b', 'v_Qa_b', 'v_x']
  other = write(tmp_path / 'val_1.json', {'v_x': data['v_Qa_b']})
  with pytest.raises(DataError, match=r'val_1.json: 1 videos are in .*train.json too \(first: v_x'):
    read_annotations('activitynet', [train, other])


@pytest.mark.parametrize(
  ('described', 'match'),
  [
    ([], "'v_x': not an object"),
    ({'sentences': ['a']}, '"timestamps" is not a list of pairs'),
    ({'timestamps': [[0, '1']]}, '"timestamps" is not a list of pairs'),
    ({'timestamps': [[0, 1]], 'sentences': ['a', 'b']}, '1 segments and 2 sentences'),
    ({'timestamps': [[0, 1]], 'sentences': [None]}, 'segment 0: captions of .* are neither'),
  ],
)
def test_activitynet_faults(tmp_path, described, match):
  refused('activitynet', write(tmp_path / 'a.json', {'v_x': described}), match)


def test_webvid(tmp_path):
  text = (
    'videoid,contentUrl,duration,page_dir,name\n'
    '31353427,https://s/31353427.mp4,PT00H00M10S,000001_000050,"Merida, mexico - tourists"\n'
    '21179416,https://s/2.mp4,PT00H00M20S,000001_000050,Aerial shot\n'
  )
  found = read_annotations('webvid', [write(tmp_path / 'results_2M_train.csv', text)])
  assert listing(found) == [
    ('31353427', 'train', ['Merida, mexico - tourists']),
    ('21179416', 'train', ['Aerial shot']),
  ]
  assert sources(found)[1] == 'https://s/2.mp4'
  refused('webvid', write(tmp_path / 'a.csv', 'videoid,text\n1,a\n'), 'one of them name; found')


def test_captions_by_video(tmp_path):
  data = {'vid1': ['a dog', 'a dog'], 'vid2': 'a cat', 'vid3': []}
  found = read_annotations('json', [write(tmp_path / 'a.json', data)])
  assert listing(found) == [
    ('vid1', None, ['a dog', 'a dog']),
    ('vid2', None, ['a cat']),
    ('vid3', None, []),
  ]
  refused('json', write(tmp_path / 'a.json', '{"a": ["b"], "a": ["c"]}'), 'twice in one object: a')
  refused('json', write(tmp_path / 'a.json', {'a': [{'text': 'b'}]}), "captions of 'a' are nei")
  refused('json', write(tmp_path / 'a.json', ['a']), 'not captions by id')


def test_a_video_has_one_category(tmp_path):
  rows = '{"id": "a", "category": 1}\n{"id": "a", "category": "1"}\n{"id": "a", "category": 2}'
  refused('jsonl', write(tmp_path / 'a.jsonl', rows), "line 3: video 'a' is of category 2 here and")


def test_text_that_is_not_utf8_says_what_to_do(tmp_path):
  file = tmp_path / 'LSMDC16_annos_val.csv'
  file.write_bytes(b'a\tSOMEONE\x92s dog\n')
  refused('lsmdc', str(file), 'not UTF-8 text at byte 9; convert it .*iconv -f WINDOWS-1252')
  file.write_bytes('a\tthe dog\n'.encode('utf-16'))
  refused('lsmdc', str(file), 'not UTF-8 text at byte 0; convert it .*iconv -f UTF-16')


def test_every_form_is_documented():
  page = (pathlib.Path(__file__).parents[2] / 'docs' / 'data.md').read_text()
  for form in FORMATS:
    assert f'\n| `{form}` | ' in page
    assert f'`--format={form} ' in page


def test_a_misspelled_caption_key_is_named(tmp_path):
  path = tmp_path / 'captions.jsonl'
  path.write_text('{"video_id": "a", "captoin": "a man"}\n{"video_id": "b"}\n')
  with pytest.raises(
    DataError, match="captions.jsonl.*no caption, but 'captoin'; give captions as"
  ):
    read_annotations('jsonl', [path])
