"""CIDEr-D where its value is known beforehand."""

from collections.abc import Sequence

import jax.numpy as jnp
import pytest

from vidcap_jax.data.vocabulary import build_vocabulary
from vidcap_jax.rewards import score
from vidcap_jax.rewards.references import make_references

TEXTS = [['a cat sits down', 'a cat sits down'], ['one dog runs away'], ['two birds fly up']]


def cider(caption: str, texts: Sequence[Sequence[str]] = TEXTS) -> float:
  """Of a caption for the first video."""
  vocabulary = build_vocabulary([t for video in texts for t in video], 1, 60, 'whitespace')
  tables = make_references(texts, vocabulary, count_eos=False)
  tokens = jnp.array([[vocabulary.encode(caption, 6)]])
  made = score(('cider',), tokens, tables, jnp.array([0]), count_eos=False)
  return float(made['cider'][0, 0])


def test_the_references_own_words_score_10():
  assert cider('a cat sits down') == pytest.approx(10, rel=1e-5)


def test_words_of_another_video_score_nothing():
  assert cider('one dog runs away') == 0


def test_cosine_and_length_by_hand():
  # Of 4, 3, 2 and 1 n-grams that weigh alike 2, 1, 0 and 0 are there; one bigram instead of three.
  mean = ((2 / 4) ** 0.5 + (1 / 3) ** 0.5) / 4
  assert cider('cat sits') == pytest.approx(10 * mean * 2.718281828 ** (-4 / 72), rel=1e-5)


@pytest.mark.parametrize(
  ('texts', 'orders'), [([['cat'], ['dog']], 1), ([['a cat'], ['one dog']], 2)]
)
def test_references_too_short_for_the_longer_n_grams(texts, orders):
  assert cider(texts[0][0], texts) == pytest.approx(10 * orders / 4, rel=1e-5)
