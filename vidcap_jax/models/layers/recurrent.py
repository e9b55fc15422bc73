"""Recurrent cells as functions of the sums in their gates.

The products of a cell's inputs are split: those that don't depend on the carry are taken before the
scan, so that the scan takes only one product and this update.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers.attention import wide
from vidcap_jax.models.layers.dense import Dense, StepDense, product

Array = jax.Array

GATES_INIT = nn.initializers.variance_scaling(1 / 3, 'fan_in', 'uniform')


def orthogonal_gates(key: Array, shape: tuple[int, int], dtype: jnp.dtype) -> Array:
  """Initial recurrent weights (H, n H) of n gates: an orthogonal matrix for each."""
  H, width = shape
  init = nn.initializers.orthogonal()
  return jnp.concatenate([init(k, (H, H), dtype) for k in jax.random.split(key, width // H)], -1)


def _keep_less(update: Callable, gates_dtype: jnp.dtype, state_dtype: jnp.dtype) -> Callable:
  """The same update of a state, which keeps fewer arrays for its gradient.

  A scan stores for each word what the gradient reads. For a sigmoid s that would be s and s (1 - s)
  in the state's dtype. Here the second is computed again in the backward pass, and if gates are
  bfloat16, they are stored and the sigmoids are computed again too.
  """
  policy = _is_activation if gates_dtype == state_dtype else None
  return jax.checkpoint(update, policy=policy, prevent_cse=False)


def _is_activation(primitive, *_, **__) -> bool:
  return primitive in (jax.lax.logistic_p, jax.lax.tanh_p)


def lstm(gates: Array, cell: Array) -> tuple[Array, Array]:
  """The pointwise half of an LSTM: (…, 4H) gate sums i, f, g, o and (…, H) cell.

  Returns:
    The new output and cell, both (…, H) in the cell's dtype (which stays float32 when the products
    are bfloat16, as a sum over many words would lose small changes otherwise).
  """
  return _keep_less(_lstm, gates.dtype, cell.dtype)(gates, cell)


def _lstm(gates: Array, cell: Array) -> tuple[Array, Array]:
  i, f, g, o = jnp.split(gates.astype(cell.dtype), 4, axis=-1)
  cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
  return jax.nn.sigmoid(o) * jnp.tanh(cell), cell


def gru(inputs: Array, state: Array, bias: Array, h: Array) -> Array:
  """The pointwise half of a GRU whose reset comes after the product (as in Flax and cuDNN).

  Args:
    inputs: (…, 3H) products of what the cell reads, r, z, n, with their biases.
    state: (…, 3H) products of the state, r, z, n, without bias.
    bias: (H,) of the state's part of n, inside the reset.
    h: (…, H) the state.

  Returns:
    The new state (…, H) in h's dtype.
  """
  bias = bias.reshape((1,) * (h.ndim - 1) + (-1,))
  parts = (*jnp.split(inputs, 3, axis=-1), *jnp.split(state, 3, axis=-1))
  return _keep_less(_gru, inputs.dtype, h.dtype)(*parts, bias, h)


def _gru(r_in, z_in, n_in, r_h, z_h, n_h, bias: Array, h: Array) -> Array:
  cast = lambda x: x.astype(h.dtype)  # noqa: E731
  r, z = jax.nn.sigmoid(cast(r_in) + cast(r_h)), jax.nn.sigmoid(cast(z_in) + cast(z_h))
  n = jnp.tanh(cast(n_in) + r * (cast(n_h) + cast(bias)))
  return (1 - z) * n + z * h


class GRU(nn.Module):
  """A GRU cell in two parts, so that the products of its inputs can be taken before a scan.

  Attributes:
    features: H.
  """

  features: int
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  def setup(self):
    dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
    H = self.features
    self.input = StepDense(3 * H, **dtypes)
    self.state = StepDense(3 * H, use_bias=False, kernel_init=GATES_INIT, **dtypes)
    self.bias = self.param('bias', nn.initializers.zeros, (H,), self.param_dtype)

  def inputs(self, x: Array) -> Array:
    """(…, D) to its part of the gates (…, 3H)."""
    return self.input(x)

  def __call__(self, inputs: Array, h: Array) -> Array:
    """One update of h (…, H) by the gates' parts from ``inputs`` (…, 3H)."""
    return gru(inputs, self.state(h.astype(self.dtype)), self.bias, h)


class LSTMEncoder(nn.Module):
  """Encodes a sequence as the output of an LSTM after the last valid frame.

  Attributes:
    features: H.
    input_init, state_init: of the two weight matrices.
  """

  features: int
  input_init: nn.initializers.Initializer = GATES_INIT
  state_init: nn.initializers.Initializer = GATES_INIT
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x: Array, mask: Array) -> Array:
    """x (B, T, D), mask (B, T) to (B, H); masked frames are skipped."""
    H = self.features
    dtypes = {'dtype': self.dtype, 'param_dtype': self.param_dtype}
    x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
    gates = Dense(4 * H, kernel_init=self.input_init, name='input', **dtypes)(x)
    kernel = self.param('state', self.state_init, (H, 4 * H), self.param_dtype)

    def read(carry, frame):
      gates, valid = frame
      h, cell = carry
      new = lstm(gates + product(h.astype(self.dtype), kernel), cell)
      return tuple(jnp.where(valid[:, None], a, b) for a, b in zip(new, carry)), None

    zeros = jnp.zeros((x.shape[0], H), wide(self.dtype))
    frames = (jnp.moveaxis(gates, 1, 0), mask.T)
    (h, _), _ = jax.lax.scan(read, (zeros, zeros), frames)
    return h.astype(self.dtype)
