"""Counting what JAX compiles."""

import jax
import numpy as np

from vidcap_jax.serving.compilations import count_compilations


def test_new_shapes_are_counted_once():
  calls = []
  count = count_compilations(lambda: calls.append(1))
  double = jax.jit(lambda x: 2 * x + 17)
  for size in (3, 3, 5):
    double(np.ones(size, np.float32)).block_until_ready()
  assert count() == len(calls) == 2
