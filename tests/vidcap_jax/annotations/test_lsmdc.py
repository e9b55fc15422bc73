"""LSMDC and M-VAD, by small files in their exact schema."""

from tests.vidcap_jax.annotations.written import listing, refused, sources, write
from vidcap_jax.annotations import read_annotations
from vidcap_jax.data.tokenizers import tokenize

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
  refused('lsmdc', write(tmp_path / 'b.csv', 'video_id\tsentence\na\tx\n'), 'line 1: a header')
