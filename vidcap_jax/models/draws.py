"""Choices at random by numbers that were made before, so that a step can be replayed."""

import jax
import jax.numpy as jnp

Array = jax.Array


def inverse_cdf(prob: Array, draw: Array) -> Array:
  """One index a row (…,) int32 from probabilities (…, N), by one uniform number a row (…,).

  Nothing of probability 0 is ever chosen, unless all are 0: then it is index 0.
  """
  cdf = jnp.cumsum(prob, axis=-1)
  at = draw.astype(cdf.dtype)[..., None] * cdf[..., -1:]
  # Sums are taken in parallel and may rise by a rounding error where the probability is 0.
  hit = (cdf > at) & (prob > 0)
  chosen = jnp.where(hit.any(axis=-1), hit.argmax(axis=-1), prob.argmax(axis=-1))
  return chosen.astype(jnp.int32)


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
