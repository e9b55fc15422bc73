"""A 3D convolution whose gradients are summed in the parameters' dtype, as in ``dense.py``."""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.layers.dense import add_bias

Array = jax.Array
_AXES = ('NDHWC', 'DHWIO', 'NDHWC')


class Convolution(nn.Module):
  """``nn.Conv`` with zero padding; in float32 it is that of Flax, bit for bit.

  Attributes:
    features: F.
    taps: of the kernel along time, rows and columns; odd numbers.
    kernel_init: of the kernel; the bias starts with zeros.
  """

  features: int
  taps: tuple[int, int, int]
  kernel_init: nn.initializers.Initializer
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x: Array) -> Array:
    """(B, T, R, C, D) to (B, T, R, C, features)."""
    shape = (*self.taps, x.shape[-1], self.features)
    kernel = self.param('kernel', self.kernel_init, shape, self.param_dtype)
    bias = self.param('bias', nn.initializers.zeros, (self.features,), self.param_dtype)
    x = x.astype(self.dtype)
    convolve = _convolve if x.dtype == kernel.dtype else _mixed_convolution
    return add_bias(convolve(x, kernel), bias)


def _convolve(x: Array, kernel: Array) -> Array:
  return jax.lax.conv_general_dilated(x, kernel, (1, 1, 1), 'SAME', dimension_numbers=_AXES)


@jax.custom_vjp
def _mixed_convolution(x: Array, kernel: Array) -> Array:
  return _convolve(x, kernel.astype(x.dtype))


def _forward(x: Array, kernel: Array):
  return _mixed_convolution(x, kernel), (x, kernel)


def _backward(residuals, dy: Array):
  x, kernel = residuals
  narrow = kernel.astype(x.dtype)
  (dx,) = jax.linear_transpose(functools.partial(_convolve, kernel=narrow), x)(dy)
  # A tap's gradient is the product of the outputs' with the inputs that it read: a convolution of
  # x by dy, in which videos are what is summed over and channels are the batch.
  dkernel = jax.lax.conv_general_dilated(
    x,
    dy,
    (1, 1, 1),
    [(taps // 2, taps // 2) for taps in kernel.shape[:3]],
    dimension_numbers=('CDHWN', 'IDHWO', 'DHWNC'),
    preferred_element_type=kernel.dtype,
  )
  return dx, dkernel


_mixed_convolution.defvjp(_forward, _backward)
