"""CIDEr-D on token ids (Vedantam et al. 2015), as the public scorer computes it."""

import jax
import jax.numpy as jnp

from vidcap_jax.rewards import ngrams
from vidcap_jax.rewards.ngrams import Frequencies

Array = jax.Array
SIGMA = 6.0


def norms(sentences: Array, frequencies: Frequencies) -> Array:
  """Lengths of the tf-idf vectors of sentences (…, L), by order: (…, ORDERS)."""
  counts, distinct = ngrams.own_counts(sentences)
  weights = ngrams.idf(frequencies, sentences)
  return _norms(counts.astype(weights.dtype) * weights, distinct)


def cider_d(
  candidate: Array, references: Array, reference_norms: Array, frequencies: Frequencies
) -> Array:
  """CIDEr-D of one caption: 0 to 10.

  tf-idf vectors of 1- to 4-grams are compared by cosine, the candidate's entries clipped to the
  reference's; each reference's is multiplied by a Gaussian of the difference in length, which is
  measured in bigrams; the mean over orders and references, times 10.

  Args:
    candidate: (L,), a sentence.
    references: (R, M), sentences; those without a word don't count.
    reference_norms: (R, ORDERS), see ``norms``.
    frequencies: of the training captions.
  """
  weight = ngrams.idf(frequencies, candidate)  # (N, L)
  counts, distinct = ngrams.own_counts(candidate)  # (N, L)
  own = counts.astype(weight.dtype) * weight
  tf_idf = ngrams.counts_in(candidate[None], references).astype(weight.dtype)  # (R, N, L)
  tf_idf = tf_idf * weight[None]
  products = jnp.where(distinct[None], jnp.minimum(own[None], tf_idf) * tf_idf, 0).sum(axis=-1)
  lengths = _norms(own, distinct)[None] * reference_norms  # (R, N)
  cosines = jnp.where(lengths > 0, products / jnp.where(lengths > 0, lengths, 1), 0)
  bigrams = lambda sentence: jnp.maximum(ngrams.length(sentence) - 1, 0)  # noqa: E731
  apart = (bigrams(candidate)[None] - bigrams(references)).astype(cosines.dtype)  # (R,)
  scores = cosines.mean(axis=-1) * jnp.exp(-(apart**2) / (2 * SIGMA**2))  # (R,)
  used = ngrams.length(references) > 0
  return 10 * jnp.where(used, scores, 0).sum() / jnp.maximum(used.sum(dtype=scores.dtype), 1)


def _norms(vectors: Array, distinct: Array) -> Array:
  """Lengths of vectors (…, L) of which only the entries of distinct n-grams count."""
  return jnp.sqrt(jnp.where(distinct, vectors**2, 0).sum(axis=-1))
