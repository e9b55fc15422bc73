import dataclasses
import json

import pytest

from vidcap_jax.data.schema import (
  Dropped,
  Manifest,
  Shard,
  Split,
  Stream,
  read_manifest,
  write_manifest,
)
from vidcap_jax.errors import DataError

MANIFEST = Manifest(
  name='clips',
  streams=(
    Stream('image', 'sequence', (None, 4), longest=9, sampling={'every': 32}, mean=(0.1,) * 4),
    Stream('boxes', 'regions', (None, None, 8), most_regions=5, optional=True),
  ),
  splits={'train': Split(3, 7, (Shard('a', 2, 'ff'), Shard('b', 1, '00')))},
  vocabulary={'words': ['a']},
  dropped=(Dropped('v9', 'train', 'no features in image'),),
  categories=2,
  versions={'numpy': '2'},
  source={'form': 'csv'},
)


def test_round_trip(tmp_path):
  write_manifest(MANIFEST, tmp_path)
  assert read_manifest(tmp_path) == MANIFEST
  assert [p.name for p in tmp_path.iterdir()] == ['manifest.json']


def test_hash_is_about_the_data_alone():
  same = dataclasses.replace(MANIFEST, name='x', source={}, versions={}, dropped=())
  assert same.hash == MANIFEST.hash
  renamed = {'train': Split(3, 7, (Shard('x', 2, 'ff'), Shard('y', 1, '00')))}
  assert dataclasses.replace(MANIFEST, splits=renamed).hash == MANIFEST.hash
  other = dataclasses.replace(MANIFEST, splits={'train': Split(3, 7, (Shard('a', 3, 'fe'),))})
  assert other.hash != MANIFEST.hash


@pytest.mark.parametrize(
  ('kind', 'shape', 'match'),
  [
    ('cube', (4,), 'unknown kind'),
    ('grid', (None, 4), 'has axes'),
    ('sequence', (None, None), 'cannot be free'),
  ],
)
def test_bad_streams(kind, shape, match):
  with pytest.raises(DataError, match=match):
    Stream('image', kind, shape)


def test_streams_by_name():
  assert MANIFEST.stream('boxes').channels == 8
  with pytest.raises(DataError, match="no stream 'audio'; it has: image, boxes"):
    MANIFEST.stream('audio')


def test_no_or_other_manifest(tmp_path):
  with pytest.raises(DataError, match='not a data set'):
    read_manifest(tmp_path)
  (tmp_path / 'manifest.json').write_text(json.dumps({'format_version': 99}))
  with pytest.raises(DataError, match='format version 99'):
    read_manifest(tmp_path)
