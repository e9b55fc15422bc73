"""METEOR's words: normalization, synonyms, hashes and paraphrases."""

import pytest

from vidcap_jax.evaluation import meteor_words


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('a dog runs', 'a dog runs'),
    ("the dog 's toy, isn't it", "the dog ' s toy , isn 't it"),
    ('his/her blue-gray 9/11', 'his / her blue gray 9 / 11'),
    ('mr. smith u.s. etc.', 'mr. smith us etc .'),
    ('no. 5 no. x 3.5 1,000 a,b', 'no . 5 no. x 3.5 1,000 a , b'),
    ('wait... what..', 'wait ... what ..'),
    ("“hi” ‘a’ ''b'' 90's", '" hi " \' a \' " b " 90 \'s'),
    ('Café–Bar --x', 'café - bar -x'),
    ('1\u00a01/2', '1 1 / 2'),
  ],
)
def test_normalization(text, words):
  assert meteor_words.normalize(text) == words.split(' ')


def test_hashes_are_those_of_java():
  assert meteor_words.key('dog') == 99644
  # Two words with the same hash, which METEOR takes for the same.
  assert meteor_words.key('Siblings') == meteor_words.key('Teheran')
  assert meteor_words.stem_key('dogs') == meteor_words.key('dog')


def test_synonyms():
  assert meteor_words.synsets('car') & meteor_words.synsets('automobiles')
  assert meteor_words.synsets('geese') & meteor_words.synsets('goose')  # an irregular plural
  assert not meteor_words.synsets('car') & meteor_words.synsets('goose')
  assert meteor_words.synsets('qqq') == frozenset()


def test_function_words():
  assert {'the', 'of', 'a'} <= meteor_words.function_words()
  assert 'dog' not in meteor_words.function_words()
