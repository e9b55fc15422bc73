"""ROUGE-L of sentences that are worked out by hand."""

import jax.numpy as jnp
import pytest

from vidcap_jax.rewards.rouge import BETA, longest_common, rouge_l

CANDIDATE = jnp.array([5, 6, 7, 8, 0, 0])
REFERENCES = jnp.array([[5, 4, 7, 4, 8, 0], [8, 7, 6, 5, 0, 0], [0, 0, 0, 0, 0, 0]])


def test_words_in_common_keep_their_order():
  assert longest_common(CANDIDATE, REFERENCES).tolist() == [3, 1, 0]


def test_best_precision_and_best_recall():
  precision, recall = 3 / 4, 3 / 5
  expected = (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)
  assert rouge_l(CANDIDATE, REFERENCES) == pytest.approx(expected, rel=1e-6)


def test_nothing_in_common():
  assert rouge_l(CANDIDATE, jnp.array([[9, 4, 0]])) == 0
