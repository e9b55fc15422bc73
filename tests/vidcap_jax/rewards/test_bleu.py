"""BLEU-4 of sentences that are worked out by hand."""

import jax.numpy as jnp
import pytest

from vidcap_jax.rewards.bleu import bleu4


def test_a_reference_word_for_word():
  assert bleu4(jnp.array([5, 6, 7, 8, 0]), jnp.array([[5, 6, 7, 8, 0]])) == pytest.approx(1)


def test_precisions_by_hand():
  candidate, reference = jnp.array([5, 6, 7, 8, 9]), jnp.array([[5, 6, 7, 8, 4]])
  product = (4 / 5) * (3 / 4) * (2 / 3) * (1 / 2)
  assert bleu4(candidate, reference) == pytest.approx(product**0.25, rel=1e-5)


def test_short_captions_are_punished():
  candidate, reference = jnp.array([5, 6, 7, 8, 0]), jnp.array([[5, 6, 7, 8, 9]])
  assert bleu4(candidate, reference) == pytest.approx(2.718281828 ** (1 - 5 / 4), rel=1e-5)
