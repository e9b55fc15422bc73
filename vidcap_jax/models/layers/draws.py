"""Choices at random by numbers that were made before, so that a step can be replayed."""

import jax
import jax.numpy as jnp

Array = jax.Array
# Summing a vocabulary up word by word takes as long as the product that made its logits; summing up
# blocks, and then the words of one of them, takes a tenth.
BLOCK = 128


def inverse_cdf(prob: Array, draw: Array) -> Array:
  """One index a row (…,) int32 from probabilities (…, N), by one uniform number a row (…,).

  Nothing of probability 0 is ever chosen, unless all are 0: then it is index 0.
  """
  return _where_sum_passes(prob, draw.astype(prob.dtype) * prob.sum(axis=-1))


def _where_sum_passes(prob: Array, at: Array) -> Array:
  """The first index at which the sum of probabilities (…, N) so far is greater than ``at`` (…,)."""
  N = prob.shape[-1]
  if N <= BLOCK:
    return _first_passing(prob, at)[0]
  blocks = jnp.pad(prob, [(0, 0)] * (prob.ndim - 1) + [(0, -N % BLOCK)])
  blocks = blocks.reshape(*prob.shape[:-1], -1, BLOCK)  # (…, N / BLOCK, BLOCK)
  block, before = _first_passing(blocks.sum(axis=-1), at)
  chosen = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]  # (…, BLOCK)
  return block * BLOCK + _first_passing(chosen, at - before)[0]


def _first_passing(prob: Array, at: Array) -> tuple[Array, Array]:
  """``_where_sum_passes`` in one go, and the sum (…,) before that index."""
  cdf = jnp.cumsum(prob, axis=-1)
  # Sums are taken in parallel and may rise by a rounding error where the probability is 0.
  possible = prob > 0
  hit = (cdf > at[..., None]) & possible
  last = jnp.where(possible, jnp.arange(prob.shape[-1], dtype=jnp.int32), 0).max(axis=-1)
  index = jnp.where(hit.any(axis=-1), hit.argmax(axis=-1).astype(jnp.int32), last)
  before = jnp.take_along_axis(cdf - prob, index[..., None], axis=-1)[..., 0]
  return index, before


def choose(weights: Array, draw: Array | None) -> tuple[Array, Array]:
  """A hard choice from attention weights (…, N).

  Args:
    weights: probabilities, or all 0 where there is nothing to choose from.
    draw: (…,) uniform in [0, 1), or None for the likeliest (ties: the first).

  Returns:
    The choice (…, N), 1 at one index, all 0 where there is nothing, and the choice's
    log-probability (…,), 0 where there is nothing. Both in the weights' dtype.
  """
  index = weights.argmax(axis=-1) if draw is None else inverse_cdf(weights, draw)
  chosen = jax.nn.one_hot(index, weights.shape[-1], dtype=weights.dtype)
  prob = (weights * chosen).sum(axis=-1)
  something = prob > 0
  log_prob = jnp.log(jnp.where(something, prob, jnp.ones_like(prob)))
  return jnp.where(something[..., None], chosen, jnp.zeros_like(chosen)), log_prob
