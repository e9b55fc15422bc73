"""MSVD as a folder of caption files."""

import pytest

from tests.vidcap_jax.annotations.written import with_categories, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.errors import DataError


def test_msvd_folder_and_files(tmp_path):
  train = write(tmp_path / 'sents_train_lc_nopunc.txt', 'vid1\ta dog\nvid2\ta cat\nvid1\tit runs\n')
  write(tmp_path / 'sents_val_lc_nopunc.txt', 'vid3\ta man\u2028sings\r\nvid3\t \n\n')
  write(tmp_path / 'sents_test_lc_nopunc.txt', 'vid4\ta\tb')
  write(tmp_path / 'sents_notes.txt', 'nothing')
  found = read_annotations('msvd', [str(tmp_path)])
  assert with_categories(found) == [
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
  with pytest.raises(DataError, match='captions.txt: .*split'):
    read_annotations('msvd', [write(tmp_path / 'captions.txt', 'a\tb')])
  bad = write(tmp_path / 'sents_train.txt', 'vid1\ta\nvid2 a\n\tb\n')
  with pytest.raises(DataError, match='line 2: not "id<TAB>caption".*line 3'):
    read_annotations('msvd', [bad])
  write(tmp_path / 'sents_train.txt', 'vid1\ta')
  write(tmp_path / 'sents_test.txt', 'vid1\tb')
  with pytest.raises(DataError, match=r"sents_test.txt: line 1.*'vid1'.*'train'.*sents_train.txt"):
    read_annotations('msvd', [str(tmp_path)])


def test_a_header_is_no_video(tmp_path):
  file = write(tmp_path / 'sents_val.txt', 'video_id\tcaption\nvid1\ta dog\n')
  assert with_categories(read_annotations('msvd', [file])) == [('vid1', 'val', -1, ['a dog'])]
  file = write(tmp_path / 'sents_val.txt', 'vid1\ta dog\tval\n')
  with pytest.raises(DataError, match='line 1: .*header'):
    read_annotations('msvd', [file])
