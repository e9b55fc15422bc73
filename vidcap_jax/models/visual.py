"""What several models make of a video's streams."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from vidcap_jax.models.attention import masked_mean
from vidcap_jax.models.captioner import Inputs

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
    x, mask = x.reshape(len(x), -1, x.shape[-1]), mask.reshape(len(mask), -1)  # (B, N, D), (B, N)
    means.append(masked_mean(x, mask))
  return jnp.concatenate(means, axis=-1)
