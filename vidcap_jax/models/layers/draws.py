"""Random choices by numbers that are drawn before the scan, so that a step can be replayed."""

import jax
import jax.numpy as jnp

Array = jax.Array
# A cumulative sum over a vocabulary takes as long as the product for its logits. One over the sums
# of blocks, and then one within a single block, together take a tenth of that.
BLOCK = 128


def inverse_cdf(prob: Array, draw: Array) -> Array:
  """Draws indices (…,) int32 from probabilities (…, N), by uniform numbers (…,).

  An index of probability 0 is never drawn, unless all are 0: then index 0 is.
  """
  return _first_above(prob, draw.astype(prob.dtype) * prob.sum(axis=-1))


def _first_above(prob: Array, at: Array) -> Array:
  """The first index at which the cumulative sum of ``prob`` (…, N) is greater than ``at`` (…,)."""
  N = prob.shape[-1]
  if N <= BLOCK:
    return _first_above_in_block(prob, at)[0]
  blocks = jnp.pad(prob, [(0, 0)] * (prob.ndim - 1) + [(0, -N % BLOCK)])
  blocks = blocks.reshape(*prob.shape[:-1], -1, BLOCK)  # (…, N / BLOCK, BLOCK)
  block, before = _first_above_in_block(blocks.sum(axis=-1), at)
  chosen = jnp.take_along_axis(blocks, block[..., None, None], axis=-2)[..., 0, :]  # (…, BLOCK)
  return block * BLOCK + _first_above_in_block(chosen, at - before)[0]


def _first_above_in_block(prob: Array, at: Array) -> tuple[Array, Array]:
  """``_first_above`` by one cumulative sum, and the sum (…,) before that index."""
  cdf = jnp.cumsum(prob, axis=-1)
  # The parallel cumulative sum may rise by a rounding error where the probability is 0.
  possible = prob > 0
  hit = (cdf > at[..., None]) & possible
  last = jnp.where(possible, jnp.arange(prob.shape[-1], dtype=jnp.int32), 0).max(axis=-1)
  index = jnp.where(hit.any(axis=-1), hit.argmax(axis=-1).astype(jnp.int32), last)
  before = jnp.take_along_axis(cdf - prob, index[..., None], axis=-1)[..., 0]
  return index, before


def choose(weights: Array, draw: Array | None) -> tuple[Array, Array]:
  """Makes a hard choice from attention weights (…, N).

  Args:
    weights: probabilities, or all 0 if nothing is valid.
    draw: (…,) uniform in [0, 1), or None for the largest weight (the first of equal ones).

  Returns:
    The choice (…, N), one-hot, or all 0 if nothing is valid; and its log-probability (…,), 0 if
    nothing is valid. Both in the weights' dtype.
  """
  index = weights.argmax(axis=-1) if draw is None else inverse_cdf(weights, draw)
  chosen = jax.nn.one_hot(index, weights.shape[-1], dtype=weights.dtype)
  prob = (weights * chosen).sum(axis=-1)
  any_valid = prob > 0
  log_prob = jnp.log(jnp.where(any_valid, prob, jnp.ones_like(prob)))
  return jnp.where(any_valid[..., None], chosen, jnp.zeros_like(chosen)), log_prob
