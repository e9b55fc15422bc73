"""What several models make of a video's streams."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from vidcap_jax.models.captioner import Inputs
from vidcap_jax.models.layers.attention import masked_mean

Array = jax.Array


def joined_means(inputs: Inputs, streams: Sequence[str]) -> Array:
  """Each stream averaged over its valid entries, joined: (B, sum of D), zeros where missing.

  Args:
    inputs: the videos.
    streams: of any kind; of a grid or regions the entries of all frames count alike.
  """
  means = []
  for name in streams:
    x, mask = inputs.features[name], inputs.masks[name]
    x = x.reshape(x.shape[0], -1, x.shape[-1])  # (B, N, D)
    means.append(masked_mean(x, mask.reshape(mask.shape[0], -1)))
  return jnp.concatenate(means, axis=-1)
