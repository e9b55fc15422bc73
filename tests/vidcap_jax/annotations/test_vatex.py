"""VATEX, by small files in its exact schema."""

import pytest

from tests.vidcap_jax.annotations.written import listing, refused, sources, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError

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
  expected = r'\[0\]: no video id; \[1\]: not an object; \[2\]: captions are neither'
  refused('vatex', write(tmp_path / 'a.json', bad), expected, 'en')
