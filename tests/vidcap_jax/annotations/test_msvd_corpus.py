"""Microsoft's corpus of MSVD, by a small file in its exact schema."""

from tests.vidcap_jax.annotations.written import listing, refused, sources, write
from vidcap_jax.annotations import read_annotations

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
  assert note.startswith('1 caption ')
  assert 'Cyrillic' in note
  assert note.endswith('corpus.csv: line 5)')


def test_msvd_corpus_faults(tmp_path):
  header = CORPUS.splitlines()[0]
  file = tmp_path / 'a.csv'
  refused('msvd_corpus', write(file, header.replace('Language', 'Lang')), 'one of them Language')
  refused(
    'msvd_corpus', write(file, header + '\na,1.5,2,,,,English,x'), r"line 2: no clip: .*Start '1.5'"
  )
  refused('msvd_corpus', write(file, header + '\na,1,2,,,,English,"x'), 'line 2: not CSV')
