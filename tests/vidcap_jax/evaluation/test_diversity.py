import pytest

from vidcap_jax.data.vocabulary import build_vocabulary
from vidcap_jax.evaluation import diversity

TRAINED = ['A man sings.', 'a dog runs', 'a man sings', 'the dog runs very fast', "It's a dog"]


@pytest.fixture
def vocabulary():
  return build_vocabulary(TRAINED, min_count=1)


def test_statistics_by_hand(vocabulary):
  captions = ['a man sings', 'a man sings', 'a man runs', 'the dog runs', '']
  trained = diversity.hash_captions(TRAINED, vocabulary, length=20)
  assert diversity.describe(captions, vocabulary, trained) == {
    'distinct_captions': 4,
    'mean_words': 12 / 5,
    'vocabulary_used': 6,  # a, man, sings, runs, the, dog
    'novel_captions': 3 / 5,
  }


@pytest.mark.parametrize(
  ('caption', 'novel'), [("it 's a dog", 0), ('it is a dog', 1), ('a dog', 1)]
)
def test_captions_are_compared_as_the_vocabulary_splits_them(vocabulary, caption, novel):
  trained = diversity.hash_captions(TRAINED, vocabulary, length=20)
  assert diversity.describe([caption], vocabulary, trained)['novel_captions'] == novel


def test_training_captions_are_cut_to_the_trained_length(vocabulary):
  trained = diversity.hash_captions(TRAINED, vocabulary, length=4)
  for caption, novel in (('the dog runs', 0), ('the dog runs very fast', 1)):
    assert diversity.describe([caption], vocabulary, trained)['novel_captions'] == novel


def test_equal_captions_are_hashed_once(vocabulary):
  once = diversity.hash_captions(TRAINED, vocabulary, 20)
  assert once == diversity.hash_captions(TRAINED[::-1] * 2, vocabulary, 20)
  assert len(once) == 44  # 4 captions of 8 bytes, in base64


def test_novel_captions_need_hashes(vocabulary):
  assert 'novel_captions' not in diversity.describe(['a dog'], vocabulary, None)
  nothing = diversity.hash_captions([], vocabulary, 20)
  assert diversity.describe(['a dog'], vocabulary, nothing)['novel_captions'] == 1
  assert diversity.describe([], vocabulary, nothing)['mean_words'] == 0
