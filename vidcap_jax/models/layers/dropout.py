"""Dropout by masks that are drawn before unrolling, so that a step can be replayed."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp

Array = jax.Array


def drop(x: Array, keep: Array | None, rate: float) -> Array:
  """Inverted dropout by a mask ``keep``, True with probability 1 - rate; None for no dropout."""
  return x if keep is None else jnp.where(keep, x / (1 - rate), jnp.zeros_like(x))


def keep_masks(key: Array, rate: float, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
  """Dropout masks by name, True where kept; {} at rate 0.

  Each mask has a key of its own, split from ``key`` in the order of the names.
  """
  if rate == 0:
    return {}
  keys = jax.random.split(key, len(shapes))
  return {
    name: jax.random.bernoulli(k, 1 - rate, shape) for k, (name, shape) in zip(keys, shapes.items())
  }


def equal_masks(
  key: Array, rate: float, names: Sequence[str], shape: tuple[int, ...]
) -> dict[str, Array]:
  """``keep_masks`` of one shape, drawn as one array: a program with many is compiled sooner."""
  if rate == 0:
    return {}
  return dict(zip(names, jax.random.bernoulli(key, 1 - rate, (len(names), *shape))))
