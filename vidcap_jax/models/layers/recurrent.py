"""Recurrent cells as functions of the sums in their gates.

The products of a cell's inputs are split: those that don't depend on the carry are taken before the
scan, so that the scan takes only one product and this update.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers import late_gradients
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


def read_lstm(gates: Array, valid: Array, kernel: Array) -> Array:
  """The output (B, …, H) of an LSTM after the last valid frame, in at least float32; 0 without any.

  Args:
    gates: (T, B, …, 4H), what the gates' sums are without the state.
    valid: (T, B); other frames are skipped.
    kernel: (H, 4H), of the state. Its gradient is taken after the last frame.
  """

  def step(params, _, state, frame, observe):
    gates, valid = frame
    h = state[0].astype(gates.dtype)
    update = lstm(gates + observe((), h, lambda h: product(h, params['kernel'])), state[1])
    return jax.tree.map(functools.partial(jnp.where, valid), update, state), None

  zeros = jnp.zeros((*gates.shape[1:-1], len(kernel)), wide(gates.dtype))
  frames = gates, _to_rows(valid, gates)
  (h, _), _ = late_gradients.scan(step, {'kernel': kernel}, None, (zeros, zeros), frames)
  return h


def read_gru(inputs: Array, valid: Array, kernel: Array, bias: Array) -> Array:
  """The state (B, …, H) of a GRU after the last valid frame, in at least float32; 0 without any.

  Args:
    inputs: (T, B, …, 3H), as in ``gru``.
    valid: (T, B, …), with 1 for axes that share it; other frames are skipped.
    kernel: (H, 3H), of the state. Its gradient is taken after the last frame.
    bias: (H,), as in ``gru``.
  """

  def step(params, _, h, frame, observe):
    inputs, valid = frame
    narrow = h.astype(inputs.dtype)
    products = observe(('state',), narrow, lambda h: product(h, params['state']['kernel']))
    return jnp.where(valid, gru(inputs, products, params['bias'], h), h), None

  zeros = jnp.zeros((*inputs.shape[1:-1], len(bias)), wide(inputs.dtype))
  params = {'state': {'kernel': kernel}, 'bias': bias}
  return late_gradients.scan(step, params, None, zeros, (inputs, _to_rows(valid, inputs)))[0]


def _to_rows(valid: Array, frames: Array) -> Array:
  """Adds axes to valid (T, B, …) for those of frames (T, B, …, D)."""
  return jnp.expand_dims(valid, tuple(range(valid.ndim, frames.ndim)))


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

  def read(self, inputs: Array, valid: Array) -> Array:
    """``read_gru`` of the gates' parts (T, B, …, 3H) from ``inputs``."""
    if self.is_initializing():
      self.state(jnp.zeros((1, self.features), self.dtype))  # makes its kernel
    kernel: Array = self.state.get_variable('params', 'kernel')
    return read_gru(inputs, valid, kernel, self.bias)


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
    return read_lstm(jnp.moveaxis(gates, 1, 0), mask.T, kernel).astype(self.dtype)
