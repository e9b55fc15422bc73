"""Sampling settings as arguments of a compiled program, so that one program serves all values."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from vidcap_jax.models.layers.attention import at_least_float32

Array = jax.Array


@struct.dataclass
class TracedSampling:
  """As ``unroll.Sampling``, of arrays (): they are checked before the program runs."""

  temperature: Any
  top_k: Any
  top_p: Any


def filter_logits(logits: Array, sampling: TracedSampling) -> Array:
  """Applies temperature, top-k and top-p to logits (…, V); excluded words get -inf.

  The words that remain are those of ``unroll.filter_logits``. Words are sorted whatever the values
  are, so a program for fixed values can be faster.
  """
  logits = at_least_float32(logits) / sampling.temperature
  V = logits.shape[-1]
  order = jnp.argsort(-logits, axis=-1)
  rank = jnp.broadcast_to(jnp.arange(V), logits.shape)
  K = jnp.where(sampling.top_k > 0, sampling.top_k, V)
  ordered = jnp.where(rank < K, jnp.take_along_axis(logits, order, axis=-1), -jnp.inf)
  prob = jax.nn.softmax(ordered, axis=-1)
  # Words up to and including the first at which the cumulative probability reaches top_p.
  reached = jnp.cumsum(prob, axis=-1) - prob < sampling.top_p
  included = (rank < K) & (reached | (sampling.top_p >= 1))
  kept = jnp.put_along_axis(
    jnp.zeros(logits.shape, jnp.bool_), order, included, axis=-1, inplace=False
  )
  return jnp.where(kept, logits, -jnp.inf)
