"""MSR-VTT, by small files in its exact schema."""

import json

import pytest

from tests.vidcap_jax.annotations.test_splits import MSRVTT
from tests.vidcap_jax.annotations.written import listing, sources, with_categories, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.annotations.splits import assign
from vidcap_jax.errors import DataError


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


def test_splits_of_a_file_in_which_all_is_train_are_undecided(tmp_path):
  videos = [{'video_id': f'video{n}', 'split': 'train'} for n in range(3)]
  found = read_annotations('msrvtt', [write(tmp_path / 'a.json', {'videos': videos})])
  assert list(found.videos) == ['video0', 'video1', 'video2']
  assert '"train"' in found.undecided
  with pytest.raises(DataError, match='"train".*--splits='):
    assign(found)


def test_msrvtt(tmp_path):
  found = read_annotations('msrvtt', [write(tmp_path / 'a.json', json.dumps(MSRVTT))])
  assert with_categories(found) == [
    ('video1', 'train', 9, ['a dog', 'a dog runs']),
    ('video0', 'val', 0, ['a man sings']),
    ('video2', 'test', -1, []),
    ('video3', None, -1, []),
  ]
  assert {reason: len(ids) for reason, ids in found.left_out.items()} == {'empty': 1}


def test_msrvtt_with_a_test_file_without_sentences(tmp_path):
  test = {'videos': [{'video_id': 'video9', 'split': 'test', 'category': 3}]}
  files = [
    write(tmp_path / 'a.json', json.dumps(MSRVTT)),
    write(tmp_path / 'b.json', json.dumps(test)),
  ]
  found = read_annotations('msrvtt', files)
  assert with_categories(found)[-1] == ('video9', 'test', 3, [])
  assert len(found.videos) == 5


@pytest.mark.parametrize(
  ('change', 'match'),
  [
    ({'videos': None}, '"videos" is not a list'),
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
      r'sentences\[0\]: no text under "caption".*and 4 more',
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
