"""Gumbel top-k, which chooses K of N frames one after another (Global2Local, equations 5-6)."""

import jax
import jax.numpy as jnp

from vidcap_jax.models.layers.attention import Edit, at_least_float32, weigh

Array = jax.Array

# Weights are clamped to this before the logarithm, as they may be negative after a pick.
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
  """K nearly one-hot distributions, each over what the earlier ones have not picked.

  pick_k = softmax((log(scale * (weights - sum of earlier picks)) + noise_k) / tau). The scale
  cancels in the softmax except for weights that were picked and are clamped at ``LEAST``.

  Without noise, equal weights share a pick: it is one-hot only if one of them is larger by a factor
  of about 1 + 10 tau. When all slots are picked, the remaining picks are spread over all valid
  slots; if there is one valid slot, every pick is that slot.

  Args:
    name: of the picks, for ``edit`` (see ``attention.weigh``).
    weights: (…, N), not negative.
    mask: bool, broadcastable to ``weights``; other slots are never picked.
    noise: (…, K, N) Gumbel(0, 1), or None for the K largest.
    picks: K.
    tau: temperature, above 0.
    scale: lambda.
    backward_tau: if not 0, the gradient is that of a softmax with this temperature (straight
      through), as gradients almost vanish at the paper's tau of 1e-4.
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
  """The K largest weights in order, as one-hot rows without gradient.

  The first of equal weights is taken; if fewer than K are valid, they are repeated in order.
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
