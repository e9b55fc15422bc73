"""Mean pooling of a video's streams."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from vidcap_jax.models.captioner import Inputs
from vidcap_jax.models.layers.attention import masked_mean

Array = jax.Array


def joined_means(inputs: Inputs, streams: Sequence[str]) -> Array:
  """Concatenates the means of streams over their valid entries: (B, sum of D), zeros if missing.

  Args:
    inputs: the videos.
    streams: names, of any kind; grids and regions are averaged over all frames' entries.
  """
  means = []
  for name in streams:
    x, mask = inputs.features[name], inputs.masks[name]
    x = x.reshape(x.shape[0], -1, x.shape[-1])  # (B, N, D)
    means.append(masked_mean(x, mask.reshape(mask.shape[0], -1)))
  return jnp.concatenate(means, axis=-1)
