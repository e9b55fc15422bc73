"""Choosing K of N frames one after the other: Gumbel top-k (Global2Local, equations 5-6)."""

import jax
import jax.numpy as jnp

from vidcap_jax.models.layers.attention import Edit, at_least_float32, weigh

Array = jax.Array

# What is left of a weight after its pick is negative, and its logarithm is taken.
LEAST = 1e-12


def top_k(
  name: str,
  weights: Array,
  mask: Array,
  noise: Array | None,
  *,
  picks: int,
  tau: float,
  scale: float = 10.0,
  backward_tau: float = 0.0,
  edit: Edit | None = None,
) -> Array:
  """K distributions that are nearly one-hot, each suppressed by those before it.

  pick_k = softmax((log(scale * (weights - sum of earlier picks)) + noise_k) / tau). The scale
  cancels in the softmax but where a weight has been used up and is clamped at ``LEAST``.

  Equal weights share a pick without noise: it is one-hot only where one of them is ahead by about
  10 tau, relatively. Once all are used up, the remaining picks are spread over all valid slots; of
  one valid slot every pick is that slot.

  Args:
    name: of the picks, for ``edit`` (see ``attention.weigh``).
    weights: (…, N), not negative.
    mask: bool, broadcastable to ``weights``; other slots are never picked.
    noise: (…, K, N) Gumbel(0, 1), or None for the K largest.
    picks: K.
    tau: temperature, above 0.
    scale: lambda.
    backward_tau: if not 0, the gradient is that of a softmax of this temperature (straight
      through): at the paper's tau of 1e-4 gradients all but vanish.
    edit: see ``attention.weigh``.

  Returns:
    (…, K, N) in at least float32; zeros where nothing is valid.
  """
  rest = scale * at_least_float32(weights)  # (…, N)
  picked = []
  for k in range(picks):
    scores = jnp.log(jnp.maximum(rest, LEAST))
    if noise is not None:
      scores = scores + noise[..., k, :].astype(scores.dtype)
    pick = weigh(name, scores / tau, mask, edit)
    if backward_tau:
      soft = weigh(name, scores / backward_tau, mask)
      pick = jax.lax.stop_gradient(pick) + (soft - jax.lax.stop_gradient(soft))
    picked.append(pick)
    rest = rest - scale * pick
  return jnp.stack(picked, axis=-2)


def argmax_top_k(
  name: str, weights: Array, mask: Array, *, picks: int, edit: Edit | None = None
) -> Array:
  """The K largest weights one after the other, as one-hot rows that give no gradient.

  Of equal weights the first is taken; where fewer than K are valid they come again in turn.
  Arguments and result are those of ``top_k``.
  """
  mask = jnp.broadcast_to(mask, weights.shape)
  rest = jax.lax.stop_gradient(at_least_float32(weights))  # (…, N), at most 1
  picked = []
  for _ in range(picks):
    best = jnp.where(mask, rest, -jnp.inf).argmax(axis=-1)
    here = jax.nn.one_hot(best, weights.shape[-1], dtype=rest.dtype)  # (…, N)
    picked.append(weigh(name, jnp.where(here > 0, jnp.zeros_like(rest), -jnp.inf), mask, edit))
    rest = rest - here
  return jnp.stack(picked, axis=-2)
