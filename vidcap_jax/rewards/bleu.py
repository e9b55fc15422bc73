"""Sentence BLEU-4 on token ids (Papineni et al. 2002), as the public scorer computes it."""

import jax
import jax.numpy as jnp

from vidcap_jax.rewards import ngrams

Array = jax.Array

# What the public scorer adds to a numerator and a denominator, against 0 / 0.
TINY, SMALL = 1e-15, 1e-9


def bleu4(candidate: Array, references: Array) -> Array:
  """BLEU-4 of one caption: 0 to 1.

  The geometric mean of four clipped precisions, times the brevity penalty against the reference
  nearest in length, the shorter of two. Without a common 4-gram it is nearly 0.

  Args:
    candidate: (L,), a sentence.
    references: (R, M), sentences; those without a word don't count.
  """
  counts, distinct = ngrams.own_counts(candidate)  # (N, L)
  most = ngrams.counts_in(candidate[None], references).max(axis=0)  # (N, L)
  correct = jnp.where(distinct, jnp.minimum(counts, most), 0).sum(axis=-1)  # (N,)
  size, sizes = ngrams.length(candidate), ngrams.length(references)
  possible = jnp.maximum(size - jnp.arange(ngrams.ORDERS, dtype=size.dtype), 0)  # (N,)
  real = jnp.zeros(()).dtype
  # Summed as logarithms: the product of four such precisions underflows.
  precisions = jnp.log(correct.astype(real) + TINY) - jnp.log(possible.astype(real) + SMALL)
  far = jnp.iinfo(sizes.dtype).max // 4
  # Odd for the longer of two that are equally near, so that the shorter one is chosen.
  distance = 2 * jnp.abs(sizes - size) + (sizes > size).astype(sizes.dtype)
  nearest = sizes[jnp.where(sizes > 0, distance, far).argmin()]
  ratio = (size.astype(real) + TINY) / (nearest.astype(real) + SMALL)
  return jnp.exp(precisions.mean() + jnp.where(ratio < 1, 1 - 1 / ratio, 0))
