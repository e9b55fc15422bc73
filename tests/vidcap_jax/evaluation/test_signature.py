"""Signatures: what they hold, their text, and how they are compared."""

import dataclasses

import pytest

from configs import common
from vidcap_jax import __version__
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation import scorers, signature
from vidcap_jax.evaluation.programs import Programs
from vidcap_jax.evaluation.signature import Difference, Signature

REFERENCES = {'v1': ['a dog runs', 'a dog'], 'v2': ['a cat']}


def decode(**changes):
  return {**common.base().decode.to_dict(), **changes}


def test_a_signature_names_references_programs_data_and_decoding():
  settings = decode(length_penalty=0.5)
  made = signature.of_captions(
    REFERENCES, split='test', data_hash='caa458947591beef', decode=settings
  )
  fields = dict(part.split(':') for part in str(made).split('|'))
  assert len(fields.pop('refs')) == 12
  assert fields.pop('scorers').startswith('numpy+pycocoevalcap-1.')
  expected = 'nrefs:1..2|videos:2|tok:ptb-3.4.1|df:references|split:test|data:caa458947591'
  expected += f'|decode:beam|beam:5|lp:0.5|v:{__version__}'
  assert fields == dict(part.split(':') for part in expected.split('|'))


def test_the_programs_of_all_metrics_are_named():
  own, package = (
    signature.of_captions(REFERENCES, programs=Programs(scorers=name)) for name in scorers.SCORERS
  )
  assert own.scorers == f'numpy+{package.scorers}'
  by_python = signature.of_captions(REFERENCES, programs=Programs(meteor='python'))
  assert by_python.scorers == f'numpy+meteor-python+{package.scorers}'


def test_what_is_not_known_is_left_out():
  text = str(signature.of_captions({'v1': ['a', 'b'], 'v2': ['c', 'd']}, by_character=True))
  assert text.startswith('nrefs:2|videos:2|tok:ptb-3.4.1+characters|')
  for key in ('split', 'data', 'decode', 'beam', 'lp'):
    assert f'|{key}:' not in text


def test_retrieval_has_no_tokenizer_of_metrics():
  made = signature.of_retrieval(REFERENCES, split='val', data_hash='1', vocabulary_hash='2')
  assert (made.tok, made.scorers, made.df, made.nrefs) == ('vocabulary-2', 'retrieval', '', '1..2')


@pytest.mark.parametrize(
  ('changes', 'expected'),
  [
    ({}, ('beam', '5', '0')),
    ({'method': 'greedy', 'length_penalty': 0.5}, ('greedy', '1', '0')),
    ({'groups': 5, 'min_length': 3}, ('beam,groups=5,diversity=0.5,min_length=3', '5', '0')),
    ({'force': ['piano', 'cat']}, ('beam,force=piano+cat', '5', '0')),
    ({'method': 'sample', 'temperature': 0.7, 'top_k': 9}, ('sample,temperature=0.7,top_k=9', '1')),
    ({'pass': 'first', 'diversity': 2.0}, ('beam,pass=first', '5', '0')),
  ],
)
def test_decoding_settings_that_change_captions_are_named(changes, expected):
  made = signature.of_captions(REFERENCES, decode=decode(**changes))
  assert (made.decode, made.beam, made.lp)[: len(expected)] == expected


def test_settings_of_a_checkpoint_from_before_they_were_added():
  settings = decode()
  for name in ('n_best', 'groups', 'diversity', 'force'):
    del settings[name]
  assert signature.of_captions(REFERENCES, decode=settings).decode == 'beam'


@pytest.mark.parametrize('split', ['test', 'a|b:c d%20\n', 'первая', '1:2'])
def test_parse_reads_what_format_wrote(split):
  made = signature.of_captions(REFERENCES, split=split, decode=decode())
  text = str(made)
  assert '\n' not in text
  assert text.count('|') == len([value for value in dataclasses.astuple(made) if value]) - 1
  assert signature.parse(f'{text}\n') == made


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('nrefs:5|5', "'5'"),
    ('', "''"),
    ('nrefs:', 'nrefs'),
    ('nrfs:5', "'nrfs'.*nrefs, videos.*similar: nrefs"),
    ('nrefs:5|nrefs:6', "two.*'nrefs'"),
  ],
)
def test_texts_that_are_no_signatures(text, words):
  with pytest.raises(ConfigError, match=words):
    signature.parse(text)


def test_fields_that_both_have_are_compared():
  first = signature.parse('nrefs:5|tok:ptb-3.4.1|beam:5|v:1')
  second = signature.parse('nrefs:20|tok:ptb-3.4.1|split:test|v:2')
  assert signature.differences(first, second) == [
    Difference('nrefs', '5', '20'),
    Difference('v', '1', '2'),
  ]
  assert signature.unknown(first, second) == ['beam']
  assert signature.unknown(second, first) == ['split']
  assert signature.differences(first, first) == []


def test_an_error_names_the_flags_that_choose_programs():
  wanted, found = signature.parse('tok:ptb-python|beam:5'), signature.parse('tok:ptb-3.4.1|beam:3')
  with pytest.raises(DataError, match='tok.*beam.*--tokenizer chooses tok$'):
    signature.check(wanted, found, print)
  with pytest.raises(DataError, match='beam: 5 in --signature, 3 here$'):
    signature.check(signature.parse('beam:5'), found, print)


def test_the_hash_of_references_is_of_what_is_scored():
  same = {'v2': ('a  cat ',), 'v1': ('a dog', 'a dog runs')}  # as a data set may hold them
  assert signature.references_hash(same) == signature.references_hash(REFERENCES)
  for other in ({**REFERENCES, 'v2': ['a dog']}, {'v1': REFERENCES['v1'], 'v3': ['a cat']}):
    assert signature.references_hash(other) != signature.references_hash(REFERENCES)


def test_an_empty_signature_has_no_text():
  assert str(Signature()) == ''


def test_the_tokenizer_is_that_which_is_used(monkeypatch):
  assert signature.tokenizer_name(False, 'python') == 'ptb-3.4.1-python'
  assert signature.tokenizer_name(True, 'python') == 'ptb-3.4.1-python+characters'
  monkeypatch.setattr('vidcap_jax.evaluation.java.find_java', lambda: None)
  assert signature.tokenizer_name(False) == 'ptb-3.4.1-python'
