"""ROUGE-L on token ids (Lin 2004), as the public scorer computes it."""

import jax
import jax.numpy as jnp

from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.rewards import ngrams

Array = jax.Array
BETA = 1.2


def longest_common(candidate: Array, references: Array) -> Array:
  """Words in the longest common subsequences of a sentence (L,) with others (R, M): (R,)."""

  def advance(row, word):  # row (R, M): with the candidate's words so far and the first j of M
    before = jnp.pad(row[:, :-1], ((0, 0), (1, 0)))
    same = (references == word) & (word != PAD)
    best = jnp.maximum(row, jnp.where(same, before + 1, 0))
    return jax.lax.cummax(best, axis=1), None

  return jax.lax.scan(advance, jnp.zeros(references.shape, jnp.int32), candidate)[0][:, -1]


def rouge_l(candidate: Array, references: Array) -> Array:
  """ROUGE-L of one caption: 0 to 1, from the best precision and the best recall.

  Args:
    candidate: (L,), a sentence.
    references: (R, M), sentences; those without a word don't count.
  """
  real = jnp.zeros(()).dtype
  common = longest_common(candidate, references).astype(real)  # (R,)
  per_word = lambda size: common / jnp.maximum(size, 1).astype(real)  # noqa: E731
  precision = per_word(ngrams.length(candidate)[None]).max()
  recall = per_word(ngrams.length(references)).max()
  below = recall + BETA**2 * precision
  some = below > 0
  return jnp.where(some, (1 + BETA**2) * precision * recall / jnp.where(some, below, 1), 0)
