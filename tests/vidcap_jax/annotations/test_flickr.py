"""Flickr8k's and Flickr30k's captions in their three forms, with their lists of splits."""

import json

import numpy as np
import pytest

from data_prep.dataset.builder import Options, build
from tests.vidcap_jax.annotations.written import listing, refused, write
from vidcap_jax.annotations import caption_files, read_annotations, splits
from vidcap_jax.annotations.flickr import is_flickr

A, B, C = '1000268201_693b08cb0e.jpg', '1001773457_577c3a7d70.jpg', '2258277193_586949ec62.jpg.1'

TOKENS = f'{A}#0\tA child , in a "pink" dress .\n{A}#1\tA girl .\r\n{B}#0\tTwo dogs, one ball .\n'
PAIRS = f'{A},"A child , in a ""pink"" dress ."\n{A},A girl .\r\n{B},Two dogs, one ball .\n'
BARS = f'{A}| 0| A child , in a "pink" dress .\n{A}| 1   A girl .\r\n{B}| 0| Two dogs, one ball .\n'
TRIPLES = f'{A},0,"A child , in a ""pink"" dress ."\n{A},1,A girl .\n{B},0, Two dogs, one ball .\n'
EXPECTED = [
  (A, None, ['A child , in a "pink" dress .', 'A girl .']),
  (B, None, ['Two dogs, one ball .']),
]
FORMS = {
  'Flickr8k.token.txt': TOKENS,
  'results_20130124.token': TOKENS,
  'captions.txt': 'image,caption\n' + PAIRS,
  'captions.csv': PAIRS,
  'Image.csv': '\ufeffImage, Caption\n' + PAIRS,
  'results.csv': 'image_name| comment_number| comment\n' + BARS,
  'flickr30k.txt': 'image_name,comment_number,comment\n' + TRIPLES,
  'plain.txt': TRIPLES,
}


@pytest.mark.parametrize('name', FORMS)
def test_forms(tmp_path, name):
  file = write(tmp_path / name, FORMS[name])
  assert listing(read_annotations('flickr', [file])) == EXPECTED
  scored = caption_files.read_references(file)
  assert {video_id: [c.strip() for c in captions] for video_id, captions in scored.items()} == {
    video_id: captions for video_id, _, captions in EXPECTED
  }
  assert caption_files.read_references(file, form='flickr') == scored


def test_files_of_other_forms_are_read_as_before(tmp_path):
  for line in ('vid1\ta cat, a dog', 'video_id,caption', 'id\tcaption', 'v.mp4\tx.jpg,a'):
    assert not is_flickr(line)
  file = write(tmp_path / 'a.txt', 'a.jpg\tone\na.jpg\ttwo, three\n')
  assert caption_files.read_references(file) == {'a.jpg': ['one', 'two, three']}


@pytest.mark.parametrize(
  ('content', 'match'),
  [
    (f'{A}#0\tA girl .\n{A} A girl .\n', 'line 2: not "NAME.jpg#NUMBER<TAB>caption"'),
    (f'{A},A girl .\nA girl .\n', 'line 2: not "NAME.jpg,caption"'),
    (f'{A},"A girl .\n{B},x\n', 'line 1: .*quote'),
    (f'{A},"A" girl .\n', 'line 1: .*quote'),
    ('video_id,caption\n', 'line 1: not'),
  ],
)
def test_lines_that_are_wrong(tmp_path, content, match):
  refused('flickr', write(tmp_path / 'captions.txt', content), match)


def test_lists_of_splits(tmp_path):
  lists = [
    write(tmp_path / 'Flickr_8k.trainImages.txt', f'{A}\n'),
    write(tmp_path / 'Flickr_8k.devImages.txt', ''),
    write(tmp_path / 'Flickr_8k.testImages.txt', f'{B.removesuffix(".jpg")}\n'),
  ]
  tokens = write(tmp_path / 'Flickr8k.token.txt', TOKENS + f'{C}#0\tA man .\n')
  annotations = read_annotations('flickr', [tokens])
  listed = splits.choose(','.join(lists), annotations, {})
  assert listed == {'train': [A], 'val': [], 'test': [B]}
  assert [video.video_id for video in splits.assign(annotations, listed)[1]] == [C]
  assert caption_files.read_references(tokens, 'test', lists[2]) == {B: ['Two dogs, one ball .']}


def test_features_named_without_jpg_are_found(tmp_path):
  (tmp_path / 'image').mkdir()
  for name in (A, B):
    np.save(tmp_path / 'image' / name.replace('.jpg', '.npy'), np.ones((1, 4), np.float32))
  write(tmp_path / 'image' / 'stream.json', json.dumps({'kind': 'sequence'}))
  manifest, _ = build(
    Options(
      form='flickr',
      annotations=(write(tmp_path / 'captions.txt', 'image,caption\n' + PAIRS),),
      features={'image': str(tmp_path / 'image')},
      split='train',
      out=str(tmp_path / 'set'),
      min_count=1,
    )
  )
  assert manifest.coverage['train']['videos'] == 2
