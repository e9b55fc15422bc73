"""ROUGE-L against pycocoevalcap's scorer, video by video."""

import numpy as np
import pytest
from pycocoevalcap.rouge.rouge import Rouge

from vidcap_jax.evaluation.rouge import rouge_l


def expected(hypotheses, references) -> np.ndarray:
  tokens = {i: [caption] for i, caption in enumerate(hypotheses)}
  return Rouge().compute_score(dict(enumerate(references)), tokens)[1]


@pytest.mark.parametrize(
  ('hypothesis', 'references'),
  [
    ('a dog runs', ['a dog is running']),
    ('dog', ['dog', 'a dog', 'cat']),
    ('the the the', ['the cat the', 'the']),
    ('a b c d', ['d c b a', 'b d', '']),
    ('a b', ['c d']),
    ('a b\u00a0c d', ['b\u00a0c', 'b c']),
    (' '.join('abcdefgh' * 20), [' '.join('hgfedcba' * 15), ' '.join('aceg' * 40)]),
  ],
)
def test_equals_pycocoevalcap(hypothesis, references):
  corpus, videos = rouge_l([hypothesis], [references])
  np.testing.assert_allclose(videos, expected([hypothesis], [references]), rtol=0, atol=1e-12)
  assert corpus == pytest.approx(videos[0])


def test_equals_pycocoevalcap_on_random_captions():
  rng = np.random.default_rng(0)

  def caption(fewest: int) -> str:
    return ' '.join(rng.choice(list('abcdefg'), rng.integers(fewest, 80)))

  references = [[caption(0) for _ in range(rng.integers(1, 5))] for _ in range(40)]
  hypotheses = [caption(1) for _ in references]
  corpus, videos = rouge_l(hypotheses, references)
  np.testing.assert_allclose(videos, expected(hypotheses, references), rtol=0, atol=1e-9)
  assert corpus == pytest.approx(videos.mean())


def test_a_caption_without_words_scores_0_even_against_another():
  assert rouge_l(['', 'a'], [['', 'a dog'], ['a']])[1].tolist() == [0, 1]
