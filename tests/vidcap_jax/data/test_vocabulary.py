import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.data.schema import Manifest, write_manifest
from vidcap_jax.data.vocabulary import (
  BOS,
  EOS,
  PAD,
  SPECIAL,
  UNK,
  Vocabulary,
  build_vocabulary,
  coverage,
  load_vocabulary,
)
from vidcap_jax.errors import DataError

CAPTIONS = ['a man sings', 'A man, and a dog.', 'the dog runs!']


def test_words_are_ordered_by_count_then_spelling():
  vocabulary = build_vocabulary(CAPTIONS, min_count=2)
  assert vocabulary.words == (*SPECIAL, 'a', 'dog', 'man')
  assert len(vocabulary) == 7


def test_captions_are_not_cut_without_a_limit():
  vocabulary = build_vocabulary(['a b c d', 'a'], 1, max_words=0)
  assert vocabulary.words[4:] == ('a', 'b', 'c', 'd')
  assert vocabulary.max_words == 4
  assert build_vocabulary([], 1, max_words=0).max_words == 1


def test_a_leak_is_saved_and_changes_no_token():
  leaking = build_vocabulary(CAPTIONS, 1, leaked_from=('val', 'test'))
  assert Vocabulary.from_dict(json.loads(json.dumps(leaking.to_dict()))) == leaking
  assert 'val and test' in leaking.leak_note
  without = build_vocabulary(CAPTIONS, 1)
  assert without.hash == leaking.hash
  assert without.leak_note == ''
  assert 'leaked_from' not in without.to_dict()


def test_only_words_within_max_words_count():
  assert build_vocabulary(['a b c d'], 1, max_words=2).words[4:] == ('a', 'b')


def test_order_of_captions_does_not_matter():
  assert build_vocabulary(CAPTIONS, 1).hash == build_vocabulary(CAPTIONS[::-1], 1).hash


def test_encode_ends_every_caption():
  vocabulary = build_vocabulary(CAPTIONS, min_count=1)
  number = vocabulary.index
  tokens = vocabulary.encode('A dog RUNS away', 8)
  assert tokens.dtype == np.int32
  expected = [number['a'], number['dog'], number['runs'], UNK, EOS, PAD, PAD, PAD]
  assert tokens.tolist() == expected
  # A caption that is cut ends too.
  assert vocabulary.encode('a dog runs away', 3).tolist() == [number['a'], number['dog'], EOS]
  assert vocabulary.encode('', 2).tolist() == [EOS, PAD]
  assert vocabulary.encode('a dog', 1).tolist() == [EOS]
  assert vocabulary.encode('a dog').shape == (vocabulary.max_words + 1,)
  with pytest.raises(ValueError, match='room for <EOS>'):
    vocabulary.encode('a', 0)


def test_spelled_out_special_words_do_not_become_them():
  vocabulary = build_vocabulary(['<EOS> <PAD> a'], 1, tokenizer='whitespace')
  assert vocabulary.words == (*SPECIAL, 'a')
  assert vocabulary.encode('a <EOS> <PAD> <BOS>', 6).tolist() == [4, UNK, UNK, UNK, EOS, PAD]


def test_decode_stops_at_the_end_and_drops_the_start():
  vocabulary = build_vocabulary(CAPTIONS, min_count=1)
  man = vocabulary.index['man']
  assert vocabulary.decode([BOS, man, UNK, EOS, man]) == 'man <UNK>'
  assert vocabulary.decode(np.array([man, PAD, man], np.int32)) == 'man'
  assert vocabulary.decode([]) == ''


@given(st.lists(st.sampled_from(['a', 'man', 'sings', 'and', 'dog', 'the', 'runs']), max_size=12))
def test_round_trip(words):
  vocabulary = build_vocabulary(CAPTIONS, min_count=1, max_words=12)
  tokens = vocabulary.encode(' '.join(words))
  assert vocabulary.decode(tokens) == ' '.join(words)
  assert (tokens == EOS).sum() == 1
  assert (tokens[len(words) + 1 :] == PAD).all()


def test_dict_round_trip_and_hash():
  vocabulary = build_vocabulary(CAPTIONS, min_count=1, max_words=7)
  data = json.loads(json.dumps(vocabulary.to_dict()))
  assert Vocabulary.from_dict(data) == vocabulary
  # What is learned, not how it was counted, is what the hash is about.
  same_words = Vocabulary(vocabulary.words, min_count=2, max_words=9)
  assert same_words.hash == vocabulary.hash
  assert Vocabulary(vocabulary.words, 'whitespace').hash != vocabulary.hash
  assert Vocabulary(vocabulary.words[:-1]).hash != vocabulary.hash

  data['words'][-1] = 'other'
  with pytest.raises(DataError, match='hash'):
    Vocabulary.from_dict(data)
  del data['hash'], data['tokenizer']
  with pytest.raises(DataError, match='tokenizer'):
    Vocabulary.from_dict(data)


@pytest.mark.parametrize(
  ('words', 'match'),
  [
    (('a', 'b'), 'begins with'),
    ((*SPECIAL, 'a', 'b', 'a'), 'duplicate.*: a$'),
  ],
)
def test_bad_words_are_refused(words, match):
  with pytest.raises(DataError, match=match):
    Vocabulary(words)


def test_no_room_for_words_is_refused():
  with pytest.raises(DataError, match='max_words is 0'):
    Vocabulary(SPECIAL, max_words=0)


def test_coverage_counts_what_is_learned_from():
  vocabulary = Vocabulary((*SPECIAL, 'a', 'b'), max_words=3)
  assert coverage(vocabulary, ['a x b b b', 'y']) == (2, 4)
  assert coverage(vocabulary, []) == (0, 0)


def test_load_from_file_manifest_and_folder(tmp_path):
  vocabulary = build_vocabulary(CAPTIONS, min_count=1)
  file = tmp_path / 'words.json'
  file.write_text(json.dumps(vocabulary.to_dict()))
  assert load_vocabulary(file) == vocabulary

  write_manifest(Manifest('x', (), {}, vocabulary=vocabulary.to_dict()), tmp_path)
  assert load_vocabulary(tmp_path) == vocabulary
  assert load_vocabulary(tmp_path / 'manifest.json') == vocabulary

  write_manifest(Manifest('x', (), {}), tmp_path)
  with pytest.raises(DataError, match='vocabulary'):
    load_vocabulary(tmp_path)


@pytest.mark.parametrize(
  ('text', 'match'),
  [('{', 'not a JSON file'), ('[]', 'JSON object'), ('{"words": []}', 'tokenizer, min_count')],
)
def test_load_names_the_bad_file(tmp_path, text, match):
  file = tmp_path / 'words.json'
  file.write_text(text)
  with pytest.raises(DataError, match=match) as caught:
    load_vocabulary(file)
  assert str(file) in str(caught.value)
  with pytest.raises(DataError, match='no such file'):
    load_vocabulary(tmp_path / 'none.json')


def test_vocabularies_outside_ascii_say_their_normal_form():
  vocabulary = build_vocabulary(['हिन्दी वाक्य', 'हिन्दी'], min_count=1)
  assert vocabulary.words[4:] == ('हिन्दी', 'वाक्य')
  data = vocabulary.to_dict()
  assert data['normal_form'] == 'NFC'
  assert Vocabulary.from_dict(data) == vocabulary
  assert 'normal_form' not in build_vocabulary(CAPTIONS, min_count=1).to_dict()


def test_vocabularies_of_earlier_versions_split_words_as_they_did():
  words = (*SPECIAL, 'ह', 'न', 'द')
  data = Vocabulary(words, normalized=False).to_dict()
  assert 'normal_form' not in data
  vocabulary = Vocabulary.from_dict(data)
  assert vocabulary.decode(vocabulary.encode('हिन्दी')) == 'ह न द'
  assert vocabulary.to_dict() == data
