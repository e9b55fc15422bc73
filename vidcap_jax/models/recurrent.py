"""Recurrent updates as functions of their gates' sums.

A cell's input product is split by when its inputs are known: parts that do not depend on the
carry are multiplied before the scan, so what remains inside is one product and this update.
"""

import jax
import jax.numpy as jnp

Array = jax.Array


def lstm(gates: Array, cell: Array) -> tuple[Array, Array]:
  """The pointwise half of an LSTM: (…, 4H) gate sums i, f, g, o and (…, H) cell.

  Returns:
    The new output and cell, both (…, H) in the cell's dtype (which stays float32 when the products
    are bfloat16, as a sum over many words would lose small changes otherwise).
  """
  i, f, g, o = jnp.split(gates.astype(cell.dtype), 4, axis=-1)
  cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
  return jax.nn.sigmoid(o) * jnp.tanh(cell), cell
