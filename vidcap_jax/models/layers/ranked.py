"""Pooling of a video's frames over time, by ranked attention or otherwise (STaTS, section 3.1.2).

Ranked attention is an LSTM whose last state is also a direction: its rank loss asks that the
frames, projected on it, are in order of time.
"""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers import recurrent
from vidcap_jax.models.layers.attention import masked_mean, wide
from vidcap_jax.models.layers.dense import add_bias, product

Array = jax.Array
# Table 2's poolings without a query; 'lstm' is 'ranked' without its loss; 'mean_…' adds the mean.
POOLINGS = ('mean_ranked', 'ranked', 'mean', 'lstm', 'mean_lstm')


class TemporalPool(nn.Module):
  """Frames to one vector.

  Attributes:
    pooling: one of ``POOLINGS``.
    margin: beta of equation 7.
  """

  pooling: str
  margin: float = 1.0
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, frames: Array, mask: Array) -> tuple[Array, Array]:
    """Pools the valid frames.

    Args:
      frames: (B, S, T, P).
      mask: (B, T).

    Returns:
      Pooled (B, S, P), zeros where no frame is valid, and the rank loss (B, S) in at least float32,
      0 unless the pooling is a ranked one.
    """
    mean = masked_mean(frames, mask[:, None])
    no_loss = jnp.zeros(mean.shape[:2], wide(self.dtype))
    if self.pooling == 'mean':
      return mean, no_loss
    P = frames.shape[-1]
    kernel = lambda name: self.param(  # noqa: E731
      name, recurrent.GATES_INIT, (P, 4 * P), self.param_dtype
    )
    bias = self.param('bias', nn.initializers.zeros, (4 * P,), self.param_dtype)
    margin = self.margin if 'ranked' in self.pooling else None
    # The LSTM runs over all frames for every word of a caption: its states are recomputed in the
    # backward pass, so that only the frames are stored.
    run = jax.checkpoint(functools.partial(_last_state, margin))
    last, loss = run(frames, mask, kernel('input'), kernel('state'), bias)
    last = last.astype(frames.dtype)
    return (mean + last if 'mean' in self.pooling else last), no_loss if loss is None else loss


def _last_state(margin: float | None, frames: Array, mask: Array, kernel, state_kernel, bias):
  """Equation 8: the LSTM's state after the last valid frame (B, S, P), and its rank loss (B, S)."""
  # What the cell reads of all frames at once, time first: (T, B, S, 4P).
  gates = add_bias(product(jnp.moveaxis(frames, 2, 0), kernel), bias)
  last = recurrent.read_lstm(gates, mask.T, state_kernel)
  return last, None if margin is None else rank_loss(last, frames, mask, margin)


def order_violations(summary: Array, frames: Array, margin: float) -> Array:
  """Equation 7: how far each frame is from coming a margin after the one before it.

  Args:
    summary: (B, S, P), the direction.
    frames: (B, S, T, P).
    margin: beta.

  Returns:
    zeta (B, S, T - 1) for t = 2..T, in the summary's dtype.
  """
  along = jnp.einsum('bsp,bstp->bst', summary, frames.astype(summary.dtype))
  return along[..., :-1] + margin - along[..., 1:]


def rank_loss(summary: Array, frames: Array, mask: Array, margin: float) -> Array:
  """Equation 6: softplus of the violations summed over pairs of neighbouring valid frames (B, S).

  A video of one frame or none has loss 0. Arguments as in ``order_violations``; mask (B, T).
  """
  losses = jax.nn.softplus(order_violations(summary, frames, margin))
  pairs = (mask[:, 1:] & mask[:, :-1])[:, None]
  return jnp.where(pairs, losses, jnp.zeros_like(losses)).sum(axis=-1)
