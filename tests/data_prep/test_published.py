"""Splits that papers share, by number, by list and as annotations say them."""

import json

import pytest

from data_prep.build import main
from tests.data_prep.building import arguments
from vidcap_jax.annotations import published, read_annotations
from vidcap_jax.annotations.model import AnnotatedVideo, Annotations
from vidcap_jax.annotations.splits import assign, choose, shared_sources
from vidcap_jax.errors import DataError


def annotation(ids) -> Annotations:
  return Annotations({i: AnnotatedVideo(i, ['a']) for i in ids})


def sizes(splits) -> dict[str, int]:
  return {name: len(part) for name, part in splits.items()}


def test_msrvtt_by_number():
  ids = [f'video{n}' for n in range(10_000)]
  splits = choose('msrvtt', annotation([*reversed(ids), 'video10000', 'other']), {})
  assert sizes(splits) == {'train': 6513, 'val': 497, 'test': 2990}
  assert splits['val'][::-1] == ids[6513:7010]
  assert published.check(splits, published.counts_of('msrvtt', 'msrvtt', None), fail=True) == []
  without_test = choose('msrvtt', annotation(ids[:7010]), {})
  assert sizes(without_test) == {'train': 6513, 'val': 497}


def test_msvd_by_number_of_the_other_name():
  names = {f'{chr(97 + n % 26)}{n}_5_15': f'vid{n}' for n in range(1, 1971)}
  splits = choose('msvd', annotation([*names, 'spare_1_2']), names)
  assert sizes(splits) == {'train': 1200, 'val': 100, 'test': 670}
  assert splits['val'][0] == 'f1201_5_15'
  with pytest.raises(DataError, match=r"ids like vid2, and no video has one: 'b1_5_15'.*--id_map"):
    choose('msvd', annotation(names), {})


def test_lists_of_the_1ka_split(tmp_path):
  train = tmp_path / 'MSRVTT_train.9k.csv'
  train.write_text('video_id\n' + '\n'.join(f'video{n}' for n in range(9000)))
  test = tmp_path / 'MSRVTT_JSFUSION_test.csv'
  rows = [f'ret{n},msr{n},video{n},"a, b {n}"' for n in range(9000, 10_000)]
  test.write_text('\n'.join(['key,vid_key,video_id,sentence', *rows, rows[0]]))
  both = f'{train},{test}'
  splits = choose(both, annotation([]), {})
  assert sizes(splits) == {'train': 9000, 'test': 1000}
  counts = published.counts_of('msrvtt', both, None)
  assert counts == {'train': (9000,), 'test': (1000,)}
  assert published.check(splits, counts, fail=True) == []
  test.write_text('\n'.join(['key,vid_key,video_id,sentence', *rows[:-3]]))
  expected = 'test has 997 videos, published are 1,000'
  assert published.check(choose(both, annotation([]), {}), counts, fail=False) == [expected]
  with pytest.raises(DataError, match=f'{expected}; .*--counts=warn'):
    published.check(choose(both, annotation([]), {}), counts, fail=True)


def test_lists_of_ones_own_have_no_published_counts(tmp_path):
  (tmp_path / 'train.txt').write_text('b\r\na\n\n')
  (tmp_path / 'my_dev_ids.csv').write_text('id,note\nc,x\n')
  both = f'{tmp_path}/train.txt,{tmp_path}/my_dev_ids.csv'
  assert choose(both, annotation([]), {}) == {'train': ['b', 'a'], 'val': ['c']}
  assert published.counts_of('msrvtt', both, None) == {}
  assert published.counts_of('csv', None, None) == {}
  assert published.counts_of('msrvtt', None, 'test') == {}


@pytest.mark.parametrize(
  ('name', 'text', 'match'),
  [
    ('ids.txt', 'a', 'must say its split, as train.txt does'),
    ('train.txt', 'a\nb\na', r'listed twice: a \(train and train\)'),
    ('train.csv', 'name\na', 'one of them video_id or video or id'),
    ('train.csv', 'id,x\na\n', 'line 2: not 2 fields'),
  ],
)
def test_list_faults(tmp_path, name, text, match):
  (tmp_path / name).write_text(text)
  with pytest.raises(DataError, match=match):
    choose(str(tmp_path / name), annotation([]), {})


def test_activitynet_has_two_validation_annotations():
  counts = published.counts_of('activitynet', None, None)
  for right in (17_505, 17_031):
    assert published.check({'val': range(right)}, counts, fail=True) == []
  wrong = published.check({'val': range(9), 'other': range(9)}, counts, fail=False)
  assert wrong == ['val has 9 videos, published are 17,505 or 17,031']


def test_everything_train_demands_splits(tmp_path):
  videos = [{'video_id': f'video{n}', 'split': 'train'} for n in (0, 6513)]
  (tmp_path / 'a.json').write_text(json.dumps({'videos': videos}))
  found = read_annotations('msrvtt', [str(tmp_path / 'a.json')])
  with pytest.raises(DataError, match=r'every video .* says "train"; give .*--splits=msrvtt\|msvd'):
    assign(found)
  assert choose('msrvtt', found, {}) == {'train': ['video0'], 'val': ['video6513']}


def test_sources_of_which_two_splits_have_clips():
  videos = {
    'train': [AnnotatedVideo('a', source='s'), AnnotatedVideo('b', source='t')],
    'val': [AnnotatedVideo('c', source='s'), AnnotatedVideo('d'), AnnotatedVideo('e')],
  }
  (note,) = shared_sources(videos)
  assert note == '1 sources have clips in several splits (first: s, in train and val)'
  del videos['train'][0]
  assert shared_sources(videos) == []


def test_what_a_build_says_of_captions(source, capsys):
  clips = source / 'clips.csv'
  clips.write_text(
    'video_id,caption,split,source\nv1,a dog,train,s\nv1,a dog,train,s\nv2,,train,\nv2,a,train,\n'
    'v3,a cat,val,s\n'
  )
  assert main(arguments(source)) == 0
  printed = capsys.readouterr().out
  for expected in (
    'train            2 videos, 3 captions (1 said twice)',
    'dropped          1 captions: empty (first: of v2)',
    'note       1 sources have clips in several splits (first: s, in train and val)',
  ):
    assert expected in printed
