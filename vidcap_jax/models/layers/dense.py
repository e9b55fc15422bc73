"""Dense layers and word tables whose gradients are summed in the parameters' dtype.

Under bfloat16 the layers of Flax cast a parameter before it is used. Its gradient is then summed in
bfloat16, over the rows of a batch and over devices, where a bias loses most of what is added. Here
only what is read is cast. In float32 the layers are those of Flax, bit for bit.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

Array = jax.Array


def product(x: Array, kernel: Array) -> Array:
  """x (…, D) times a kernel (D, F) or (D,), in x's dtype.

  The gradient of the kernel has its own dtype and is summed in it.
  """
  return _contract(x, kernel) if x.dtype == kernel.dtype else _mixed_product(x, kernel)


def _contract(x: Array, kernel: Array) -> Array:
  return jax.lax.dot_general(x, kernel, (((x.ndim - 1,), (0,)), ((), ())))


@jax.custom_vjp
def _mixed_product(x: Array, kernel: Array) -> Array:
  return _contract(x, kernel.astype(x.dtype))


def _forward(x: Array, kernel: Array):
  return _mixed_product(x, kernel), (x, kernel)


def _backward(residuals, dy: Array):
  x, kernel = residuals
  last = tuple(range(x.ndim - 1, dy.ndim)), tuple(range(1, kernel.ndim))
  dx = jax.lax.dot_general(dy, kernel.astype(x.dtype), (last, ((), ())))
  rows = tuple(range(x.ndim - 1))
  dkernel = jnp.tensordot(x, dy, (rows, rows), preferred_element_type=kernel.dtype)
  return dx, dkernel


_mixed_product.defvjp(_forward, _backward)


def add_bias(y: Array, bias: Array) -> Array:
  """y (…, F) plus a bias (F,), whose gradient is summed in its own dtype."""
  # The cast is after the broadcast, so that the sum of its gradient is after the cast back.
  return y + jnp.broadcast_to(bias.reshape((1,) * (y.ndim - 1) + (-1,)), y.shape).astype(y.dtype)


class Dense(nn.Dense):
  """``nn.Dense`` whose gradients are summed in the parameters' dtype."""

  @nn.compact
  def __call__(self, inputs: Array) -> Array:
    """(…, D) to (…, features)."""
    shape = (inputs.shape[-1], self.features)
    kernel = self.param('kernel', self.kernel_init, shape, self.param_dtype)
    y = product(inputs.astype(self.dtype), kernel)
    if not self.use_bias:
      return y
    return add_bias(y, self.param('bias', self.bias_init, (self.features,), self.param_dtype))


class StepDense(Dense):
  """A ``Dense`` whose parameters' gradients are taken after the last word of a caption.

  ``vidcap_jax.decoding.scan`` collects the inputs of these layers during the scan over words and
  takes each gradient as one large product or sum, which is faster than a sum over words.

  A model's ``embed`` and ``step`` must call it directly, not inside of ``jax.checkpoint``,
  ``nn.scan`` or another transformation, which would hide its inputs; ``models/contract.py`` checks
  that when parameters are initialised. Outside of the scan over words (in ``encode``, say) it may
  be called anywhere and is a ``Dense``.
  """


class Embed(nn.Embed):
  """``nn.Embed`` whose gradient is summed in the table's dtype."""

  def __call__(self, inputs: Array) -> Array:
    """Indices (…,) to rows (…, features)."""
    return jnp.take(self.embedding, inputs, axis=0).astype(self.dtype)
