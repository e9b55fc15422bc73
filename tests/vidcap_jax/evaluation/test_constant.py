"""The best constant caption has the CIDEr that scoring it would give."""

import random

import pytest

from vidcap_jax.errors import DataError
from vidcap_jax.evaluation.constant import constant_baseline
from vidcap_jax.evaluation.metrics import References, score


@pytest.mark.parametrize('seed', range(2))
def test_constant_baseline_is_the_cider_of_that_caption(seed):
  rng = random.Random(seed)

  words = ['a', 'man', 'dog', 'runs', 'plays', 'in', 'the', 'snow', 'guitar']

  def sentence():
    return ' '.join(rng.choices(words, k=rng.randint(1, 9)))

  references = References(
    {f'v{i}': [sentence() for _ in range(rng.randint(1, 5))] for i in range(12)}
  )
  candidates = [sentence() for _ in range(4)] + ['zebra', '.']
  scores = {
    c: score(dict.fromkeys(references.captions, c), references, ['CIDEr'])[0]['CIDEr']
    for c in candidates
  }
  best, value = constant_baseline(references, candidates)
  assert value == pytest.approx(max(scores.values()), abs=1e-12)
  assert scores[best] == max(scores.values())
  for caption in candidates[-2:]:
    assert constant_baseline(references, [caption])[1] == pytest.approx(scores[caption], abs=1e-12)


def test_constant_baseline_needs_candidates():
  with pytest.raises(DataError, match='no candidate captions'):
    constant_baseline({'v1': ['a dog runs']}, [])
