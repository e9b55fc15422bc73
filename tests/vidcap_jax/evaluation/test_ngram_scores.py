"""BLEU and CIDEr-D against pycocoevalcap's scorers, video by video."""

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider

from vidcap_jax.evaluation import ngram_scores

SETS = {
  'one reference': (['a dog runs', 'a cat'], [['a dog is running'], ['a cat sleeps']]),
  'unequal numbers of references': (
    ['a dog runs fast', 'the cat sleeps', 'a man'],
    [['a dog runs'], ['the cat', 'a cat sleeps', 'the cat sleeps on a mat'], ['a man', 'a boy']],
  ),
  'repeated words': (
    ['the the the the the', 'a b a b a b'],
    [['the cat the dog', 'the the'], ['a b a b', 'b a']],
  ),
  'captions of one word': (['dog', 'cat'], [['dog', 'a dog'], ['cat']]),
  'empty captions': (['', 'a dog', ''], [['a cat'], ['a dog'], ['', 'a man']]),
  'references without words': (['a b c d', 'e'], [['', ''], ['']]),
  'no shared words': (['a b c d e', 'f g'], [['p q r s'], ['t u']]),
  'one video': (['a dog runs'], [['a dog runs', 'a dog is running']]),
  'a space that is no break': (['1\u00a01/2 cups', 'a'], [['1\u00a01/2 cups of'], ['a b']]),
}


def random_set(seed: int) -> tuple[list[str], list[list[str]]]:
  """Captions of 0 to 12 words out of 2 to 40, for 1 to 20 videos of 1 to 6 references."""
  rng = np.random.default_rng(seed)
  vocabulary = [f'w{i}' for i in range(rng.integers(2, 40))]

  def caption() -> str:
    return ' '.join(rng.choice(vocabulary, rng.integers(0, 13)))

  N = rng.integers(1, 21)
  hypotheses = [caption() for _ in range(N)]
  return hypotheses, [[caption() for _ in range(rng.integers(1, 7))] for _ in range(N)]


def dictionaries(hypotheses, references) -> tuple[dict, dict]:
  return dict(enumerate(references)), {i: [caption] for i, caption in enumerate(hypotheses)}


def check(hypotheses, references):
  expected, expected_videos = Bleu(4).compute_score(
    *dictionaries(hypotheses, references), verbose=0
  )
  counted = ngram_scores.count_ngrams(hypotheses, references)
  for n, (corpus, videos) in enumerate(ngram_scores.bleu(counted)):
    assert corpus == pytest.approx(expected[n], abs=1e-9)
    np.testing.assert_allclose(videos, expected_videos[n], rtol=0, atol=1e-9)
  corpus, videos = ngram_scores.cider(counted)
  if any(caption for captions in references for caption in captions):  # it fails on no n-grams
    expected, expected_videos = Cider().compute_score(*dictionaries(hypotheses, references))
    assert corpus == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(videos, expected_videos, rtol=0, atol=1e-9)
  else:
    assert corpus == 0
    assert not videos.any()


@pytest.mark.parametrize('name', SETS)
def test_equals_pycocoevalcap(name):
  check(*SETS[name])


@pytest.mark.parametrize('seed', range(20))
def test_equals_pycocoevalcap_on_random_captions(seed):
  check(*random_set(seed))


def test_counts_of_ngrams():
  counted = ngram_scores.count_ngrams(['a b a b'], [['a b', 'c']])
  assert counted.lengths.tolist() == [4, 2, 1]
  assert counted.videos.tolist() == [0, 0, 0]
  assert [order.counts.sum() for order in counted.orders] == [4 + 2 + 1, 3 + 1, 2, 1]
  bigrams = counted.orders[1]
  assert sorted(bigrams.counts[bigrams.captions == 0]) == [1, 2]  # 'b a', and 'a b' twice
