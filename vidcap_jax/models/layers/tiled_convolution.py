"""3D convolution, ReLU and max-pooling, convolved in the frequency domain tile by tile (dualAFR).

With a 7^3 kernel a direct convolution takes 343 products for each output and pair of channels. By
tiles (``frequency_tiles``) it takes 8, transforms included, for the same values and gradients up to
rounding.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.custom_derivatives import SymbolicZero

from vidcap_jax.distributed.mesh import batch_shards
from vidcap_jax.models.layers import frequency_tiles as tiles
from vidcap_jax.models.layers.attention import at_least_float32, wide
from vidcap_jax.models.layers.frequency_tiles import Grid

Array = jax.Array

# Channels of the output that are computed at once. It bounds the memory of the kernel's and the
# output's transforms, which are larger than the kernel and the output.
_CHANNELS = 64
# How many times fewer operations than a direct convolution are worth the tiles: their products are
# smaller and their transforms take memory. 3^3 kernels never reach it.
_WORTHWHILE = 6


def is_worthwhile(x_shape: tuple[int, ...], taps: tuple[int, int, int], features: int) -> bool:
  """Whether tiles take far fewer operations than a direct convolution of x (B, T, R, C, D)."""
  batch, *sizes, channels = x_shape
  direct = math.prod(x_shape) * math.prod(taps) * features
  return _WORTHWHILE * Grid(tuple(sizes), taps).operations(batch, channels, features) < direct


def _product(equation: str, x: Array, y: Array, dtype: jnp.dtype) -> Array:
  """Products of all frequencies, in ``dtype`` but summed in at least float32."""
  x, y = x.astype(dtype), y.astype(dtype)
  return jnp.einsum(equation, x, y, preferred_element_type=wide(dtype))


def _to_windows(x: Array, ratio: int, empty: float) -> Array:
  """(B, T, R, C, F), filled up by ``empty``, to (B, U, ratio, R', ratio, C', ratio, F)."""
  B, *sizes, F = x.shape
  more = [(0, -n % ratio, 0) for n in sizes]
  x = jax.lax.pad(x, np.asarray(empty, x.dtype), [(0, 0, 0), *more, (0, 0, 0)])
  U, R, C = (n // ratio for n in x.shape[1:4])
  return x.reshape(B, U, ratio, R, ratio, C, ratio, F)


def _window_cells(ratio: int) -> np.ndarray:
  """The number of each cell in a window, for arrays as ``_to_windows`` gives."""
  return np.arange(ratio**3, dtype=np.int32).reshape(1, 1, ratio, 1, ratio, 1, ratio, 1)


def _pool(y: Array, mask: Array, ratio: int) -> tuple[Array, Array]:
  """The largest valid value of each window (B, U, R', C', F), -inf without any, and its cell."""
  y = _to_windows(jnp.where(mask[..., None], y, -jnp.inf), ratio, -np.inf)
  top = y.max(axis=(2, 4, 6), keepdims=True)
  cell = jnp.where(y == top, _window_cells(ratio), np.int32(ratio**3)).min(axis=(2, 4, 6))
  return top.reshape(cell.shape), cell


def _unpool(pooled: Array, cell: Array, ratio: int, sizes: tuple[int, int, int]) -> Array:
  """The transpose of ``_pool``: values (B, U, R', C', F) at their cells, zero elsewhere."""
  expand = lambda x: jnp.expand_dims(x, (2, 4, 6))  # noqa: E731
  chosen = expand(cell) == _window_cells(ratio)
  y = jnp.where(chosen, expand(pooled), jnp.zeros((), pooled.dtype))
  B, U, _, R, _, C, _, F = y.shape
  T, rows, columns = sizes
  return y.reshape(B, U * ratio, R * ratio, C * ratio, F)[:, :T, :rows, :columns]


def _by_chunk(x: Array) -> Array:
  """(…, F) to (chunks, …, channels of a chunk), filled up by zeros."""
  F = x.shape[-1]
  chunks = -(-F // _CHANNELS)
  size = -(-F // chunks)
  x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, chunks * size - F)])
  return jnp.moveaxis(x.reshape(*x.shape[:-1], chunks, size), -2, 0)


def _from_chunks(x: Array, F: int) -> Array:
  """The inverse of ``_by_chunk``."""
  x = jnp.moveaxis(x, 0, -2)
  return x.reshape(*x.shape[:-2], -1)[..., :F]


def _group(x: Array) -> Array:
  """'shfklgab…' with the videos in a group e for each shard of the batch: 'shfklgaeb…'.

  A sum over all videos is then one over a shard's own and one over groups, and what is between
  them needs no communication: a kernel's gradient is many times as large before the transform.
  """
  *lead, B, D = x.shape
  groups = batch_shards() if B % batch_shards() == 0 else 1
  return x.reshape(*lead, groups, B // groups, D)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def convolve_and_pool(x: Array, mask: Array, kernel: Array, bias: Array, ratio: int) -> Array:
  """Convolution with zero padding ('same'), ReLU and max-pooling of valid cells.

  The output before pooling exists for ``_CHANNELS`` channels at a time and is not kept for the
  gradient, which needs only the cell that each maximum was taken from.

  Args:
    x: (B, T, R, C, D), zero where ``mask`` is False. Its dtype is that of the products; transforms
      are in float32 (float64 for float64).
    mask: bool (B, T, R, C), cells to pool over.
    kernel: (*taps, D, F) with odd numbers of taps, in float32 or float64.
    bias: (F,), as ``kernel``.
    ratio: of pooling along each axis, in ceil mode.

  Returns:
    (B, U, R', C', F) in x's dtype; 0 for windows without a valid cell.
  """
  return _forward(x, mask, kernel, bias, ratio)[0]


def _forward(x: Array, mask: Array, kernel: Array, bias: Array, ratio: int) -> tuple[Array, Array]:
  """The result of ``convolve_and_pool`` and the cell of each maximum in its window."""
  grid = Grid(x.shape[1:4], kernel.shape[:3])
  x_factors = tiles.apply(tiles.input_steps(grid), at_least_float32(x)).astype(x.dtype)

  def convolve(_, chunk):
    kernel, bias = chunk
    kernel_factors = tiles.apply(tiles.kernel_steps(grid), kernel)
    y = _product('shfklgabc,shfkcd->shfklgabd', x_factors, kernel_factors, x.dtype)
    y = tiles.join_tiles(grid, tiles.apply(tiles.output_steps(grid), y))
    y += bias.reshape(1, 1, 1, 1, -1)
    return None, _pool(y.astype(x.dtype), mask, ratio)

  _, found = jax.lax.scan(convolve, None, (_by_chunk(kernel), _by_chunk(bias)))
  pooled, cell = (_from_chunks(part, kernel.shape[-1]) for part in found)
  return nn.relu(pooled), cell


def _save(x, mask, kernel, bias, ratio):
  """The forward pass for a gradient; arguments are ``CustomVJPPrimal``."""
  pooled, cell = _forward(x.value, mask.value, kernel.value, bias.value, ratio)
  # Features are data: their gradient is computed only where one is asked for.
  needs_input = () if x.perturbed else None
  return pooled, (x.value, kernel.value, pooled > 0, cell, needs_input)


def _backward(ratio: int, saved: tuple, grad: Array) -> tuple[Array | None, ...]:
  """Gradients of x (None where not needed), mask (None), kernel and bias."""
  x, kernel, positive, cell, needs_input = saved
  if isinstance(grad, SymbolicZero):
    return None, None, None, None
  grid = Grid(x.shape[1:4], kernel.shape[:3])
  grad = at_least_float32(jnp.where(positive, grad, jnp.zeros_like(grad)))
  x_factors = tiles.apply(tiles.input_steps(grid), at_least_float32(x)).astype(x.dtype)
  kernel_steps = tiles.kernel_steps(grid)

  def transposed(x_grad, chunk):
    kernel, grad, cell = chunk
    grad = tiles.split_tiles(grid, _unpool(grad, cell, ratio, grid.sizes))
    grad = tiles.apply_transposed(tiles.output_steps(grid), grad)
    if x_grad is not None:
      factors = tiles.apply(kernel_steps, kernel)
      x_grad += _product('shfklgabd,shfkcd->shfklgabc', grad, factors, x.dtype)
    kernel_grad = _product(
      'shfklgaebc,shfklgaebd->eshfkcd', _group(x_factors), _group(grad), x.dtype
    )
    kernel_grad = jax.vmap(functools.partial(tiles.apply_transposed, kernel_steps))(kernel_grad)
    return x_grad, kernel_grad.sum(axis=0)

  x_grad = None if needs_input is None else jnp.zeros(x_factors.shape, grad.dtype)
  chunks = tuple(map(_by_chunk, (kernel, grad, cell)))
  x_grad, kernel_grad = jax.lax.scan(transposed, x_grad, chunks)
  if x_grad is not None:
    x_grad = tiles.apply_transposed(tiles.input_steps(grid), x_grad).astype(x.dtype)
  kernel_grad = _from_chunks(kernel_grad, kernel.shape[-1])
  return x_grad, None, kernel_grad, grad.sum(axis=(0, 1, 2, 3))


convolve_and_pool.defvjp(_save, _backward, symbolic_zeros=True)


class TiledConvolution(nn.Module):
  """``convolve_and_pool`` with the parameters of an ``nn.Conv``, by the same names.

  Attributes:
    features: F.
    taps: of the kernel along time, rows and columns.
    ratio: of pooling.
    kernel_init: of the kernel; the bias starts with zeros.
  """

  features: int
  taps: tuple[int, int, int]
  ratio: int
  kernel_init: nn.initializers.Initializer
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, x: Array, mask: Array) -> Array:
    """Maps (B, T, R, C, D), zero where mask (B, T, R, C) is False, to (B, U, R', C', F)."""
    shape = (*self.taps, x.shape[-1], self.features)
    kernel = self.param('kernel', self.kernel_init, shape, self.param_dtype)
    bias = self.param('bias', nn.initializers.zeros, (self.features,), self.param_dtype)
    kernel, bias = (p.astype(wide(self.dtype)) for p in (kernel, bias))
    return convolve_and_pool(x.astype(self.dtype), mask, kernel, bias, self.ratio)
