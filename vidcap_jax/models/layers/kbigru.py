"""A bidirectional GRU that reads a video from a key frame outwards (refocused encoder, eq 4-7)."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers.dense import Dense
from vidcap_jax.models.layers.recurrent import GRU

Array = jax.Array


def middle_frame(mask: Array) -> Array:
  """The middle one of the valid frames: mask (B, T) to (B,), 0 if no frame is valid.

  Of K frames without gaps it is frame floor(K / 2).
  """
  count = jnp.cumsum(mask, axis=-1, dtype=jnp.int32)
  past_half = count > count[:, -1:] // 2
  return jnp.argmax(past_half, axis=-1).astype(jnp.int32)


class KBiGRU(nn.Module):
  """One GRU from the key frame back to the first frame, one from it on to the last.

  Attributes:
    features: H, of both GRUs and of the result.
  """

  features: int
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  def setup(self):
    dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
    self.left = GRU(self.features, **dtypes)
    self.right = GRU(self.features, **dtypes)
    self.join = Dense(self.features, **dtypes)

  def inputs(self, frames: Array) -> tuple[Array, Array]:
    """The input parts of both GRUs' gates for frames (B, T, D), (B, T, 3H) each.

    They don't depend on the key frame.
    """
    return self.left.inputs(frames), self.right.inputs(frames)

  def __call__(self, inputs: tuple[Array, Array], mask: Array, key_frame: Array) -> Array:
    """Encodes each video from its own key frame.

    Args:
      inputs: from ``inputs``.
      mask: (B, T); invalid frames are skipped.
      key_frame: (B,), 0 <= key_frame < T.

    Returns:
      (B, H), equation 7.
    """
    at = jnp.arange(mask.shape[1], dtype=key_frame.dtype)[None]
    key = key_frame[:, None]
    left, right = inputs
    # Every video takes T steps; a state doesn't change at frames that its GRU doesn't read.
    states = (
      self.left.read(jnp.moveaxis(left[:, ::-1], 1, 0), (mask & (at <= key))[:, ::-1].T),
      self.right.read(jnp.moveaxis(right, 1, 0), (mask & (at >= key)).T),
    )
    return jnp.tanh(self.join(jnp.concatenate(states, axis=-1).astype(self.dtype)))
