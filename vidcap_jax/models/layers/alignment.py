"""Grids of several CNN layers brought to the positions and channels of the last (dualAFR).

A layer's grid is ``ratio`` times as fine as the last one's, in time, rows and columns (rounded up:
28 rows at ratio 8 are 4). An aligned position stands for a window of ratio^3 cells of each layer.
"""

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from vidcap_jax.errors import ConfigError
from vidcap_jax.models.layers import tiled_convolution
from vidcap_jax.models.layers.convolution import Convolution
from vidcap_jax.models.layers.dense import Dense

Array = jax.Array
Windows = Sequence[tuple[int, int]]  # (first cell of position 0, cells), for time, rows, columns

ALIGNMENTS = ('convolution', 'mlp', 'max', 'average', 'hypercolumn')
CONVOLUTIONS = ('tiles', 'direct')


def to_maps(name: str, x: Array, mask: Array) -> tuple[Array, Array]:
  """A grid stream (B, T, N, D), (B, T, N) as maps (B, T, R, R, D), zero where masked, and mask.

  A sequence (B, T, D) is a grid of one cell.

  Raises:
    ConfigError: N is not a square; names the stream.
  """
  if x.ndim == 3:
    x, mask = x[:, :, None], mask[:, :, None]
  *lead, N, D = x.shape
  R = math.isqrt(N)
  if R * R != N:
    raise ConfigError(f'stream {name!r} has {N} cells a frame; as many rows as columns are needed')
  x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
  return x.reshape(*lead, R, R, D), mask.reshape(*lead, R, R)


def _reduce(x: Array, ratio: int, windows: Windows, empty: float, operation: Callable) -> Array:
  """Reduces each position's window of x (B, T, R, R, D), padded with ``empty`` outside the map."""
  outer = [(0, 0, 0)]
  pads = []
  for n, (start, size) in zip(x.shape[1:4], windows):
    end = start + (-(-n // ratio) - 1) * ratio + size  # the end of the last position's window
    pads.append((-start, end - n, 0))  # negative to remove cells that are in no window
  fill = np.asarray(empty, x.dtype)
  x = jax.lax.pad(x, fill, outer + pads + outer)
  sizes, strides = (1, *(size for _, size in windows), 1), (1, ratio, ratio, ratio, 1)
  return jax.lax.reduce_window(x, fill, operation, sizes, strides, 'VALID')


def pool_max(x: Array, mask: Array, ratio: int, windows: Windows) -> Array:
  """The largest valid value of each window, per channel: (B, U, R', R', D); 0 if none is valid."""
  low = _reduce(jnp.where(mask[..., None], x, -jnp.inf), ratio, windows, -np.inf, jax.lax.max)
  return jnp.where(count(mask, ratio, windows) > 0, low, jnp.zeros_like(low))


def pool_mean(x: Array, mask: Array, ratio: int, windows: Windows) -> Array:
  """The mean of each window's valid cells (B, U, R', R', D); 0 if none is valid."""
  x = jnp.where(mask[..., None], x, jnp.zeros_like(x))
  number = count(mask, ratio, windows).astype(x.dtype)
  return _reduce(x, ratio, windows, 0, jax.lax.add) / jnp.maximum(number, jnp.ones_like(number))


def count(mask: Array, ratio: int, windows: Windows) -> Array:
  """The number of valid cells (B, T, R, R) in each window: float32 (B, U, R', R', 1)."""
  return _reduce(mask[..., None].astype(jnp.float32), ratio, windows, 0, jax.lax.add)


def cells(ratio: int) -> Windows:
  """The window of cells that a position covers."""
  return [(0, ratio)] * 3


def receptive_field(ratio: int) -> Windows:
  """The window that the last layer's position depends on: ratio - 1 more cells on every side.

  That is the appendix's Table 5, [8i - 14, 8i + 7] for pool2 and [2i - 2, 2i + 1] for pool4
  counted from 1; its 4i + 4 for pool3 is 4i + 3 by its Table 4 and text.
  """
  return [(1 - ratio, 3 * ratio - 2)] * 3


def centre(ratio: int) -> Windows:
  """The central cells of a position, in all its frames: two rows and columns for even ratios."""
  across = ((ratio - 1) // 2, 2 - ratio % 2)
  return [(0, ratio), across, across]


def unfold(x: Array, ratio: int) -> Array:
  """All cells of each position's window as one vector: (B, U, R', R', ratio^3 D)."""
  B, D = x.shape[0], x.shape[-1]
  pads = [(0, -n % ratio) for n in x.shape[1:4]]
  x = jnp.pad(x, [(0, 0), *pads, (0, 0)])
  U, rows, columns = (n // ratio for n in x.shape[1:4])
  x = x.reshape(B, U, ratio, rows, ratio, columns, ratio, D).transpose(0, 1, 3, 5, 2, 4, 6, 7)
  return x.reshape(B, U, rows, columns, -1)


class Align(nn.Module):
  """Aligns layers to the positions and channels of the last one.

  ``convolution`` (equation 3): a 3D convolution with zero padding, ReLU, max-pooling. The others
  bring each layer to the positions without weights and then, by an MLP of one hidden layer that
  positions share, to the last layer's channels (equation 18): ``max`` and ``average`` pool over the
  receptive field (equation 17), ``hypercolumn`` interpolates at the position's centre, ``mlp``
  gives the MLP all cells that the position covers.

  The last layer is not changed by a convolution (equation 3). By the others it is if ``embed_last``
  is not set; otherwise it passes through an MLP of its own, as all layers do in equation 18.

  Padding is ignored: it is zero for the convolution, as outside of the video, and the convolution's
  outputs there are not pooled.

  Attributes:
    how: one of ``ALIGNMENTS``.
    names: of the layers, for messages and parameter names.
    ratios: of the layers; the last is 1.
    kernels: convolution size of all layers but the last.
    kernel_init: of weights.
    embed_last: whether the last layer has an MLP too; not with ``convolution``.
    convolution: one of ``CONVOLUTIONS``, two ways to the same result: 'tiles' in the frequency
      domain where they take far fewer operations (``layers/tiled_convolution.py``), or 'direct'.
  """

  how: str
  names: tuple[str, ...]
  ratios: tuple[int, ...]
  kernels: tuple[int, ...]
  kernel_init: nn.initializers.Initializer
  embed_last: bool = False
  convolution: str = 'tiles'
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32

  @nn.compact
  def __call__(self, maps: Sequence[Array], masks: Sequence[Array]) -> tuple[Array, Array]:
    """Maps (B, T_l, R_l, R_l, D_l) of layers l, zero where masks (B, T_l, R_l, R_l) are False.

    Returns:
      Values (B, N, layers, D) and their mask (B, N, layers), positions in order of time, row,
      column; zero where a layer has no valid cell.

    Raises:
      ConfigError: a layer's rows divided by its ratio are not the last layer's rows.
    """
    F, R = maps[-1].shape[-1], maps[-1].shape[2]
    units = max(-(-x.shape[1] // ratio) for x, ratio in zip(maps, self.ratios))
    aligned = []
    for layer, (name, ratio, x, mask) in enumerate(zip(self.names, self.ratios, maps, masks)):
      if -(-x.shape[2] // ratio) != R:
        raise ConfigError(
          f'stream {name!r} has {x.shape[2]} rows and columns, which ratio {ratio} does not '
          f'reduce to the {R} of {self.names[-1]!r}; change model.layers or model.ratios'
        )
      x = x.astype(self.dtype)
      if self.how != 'convolution' and (self.embed_last or layer < len(maps) - 1):
        x = self._mlp(layer, x, mask, F)
      elif layer < len(maps) - 1:
        x = self._convolve(layer, x, mask, F)
      present = count(mask, ratio, cells(ratio)) > 0  # (B, U, R, R, 1)
      x = jnp.where(present, x, jnp.zeros_like(x))
      more = [(0, 0), (0, units - x.shape[1]), (0, 0), (0, 0), (0, 0)]
      aligned.append((jnp.pad(x, more), jnp.pad(present, more)))
    B = maps[-1].shape[0]
    values, present = (jnp.stack(parts, -2) for parts in zip(*aligned))  # (B, U, R, R, layers, …)
    return values.reshape(B, -1, len(maps), F), present.reshape(B, -1, len(maps))

  def _convolve(self, layer: int, x: Array, mask: Array, F: int) -> Array:
    """Equation 3: (B, U, R, R, F)."""
    size, ratio = (self.kernels[layer],) * 3, self.ratios[layer]
    settings = {'name': f'convolve_{self.names[layer]}', **self._weights()}
    if self.convolution == 'tiles' and tiled_convolution.is_worthwhile(x.shape, size, F):
      return tiled_convolution.TiledConvolution(F, size, ratio, **settings)(x, mask)
    return pool_max(nn.relu(Convolution(F, size, **settings)(x)), mask, ratio, cells(ratio))

  def _mlp(self, layer: int, x: Array, mask: Array, F: int) -> Array:
    """Equations 17 and 18, and the other alignments without a convolution: (B, U, R, R, F)."""
    ratio = self.ratios[layer]
    if self.how == 'mlp':
      x = unfold(x, ratio)
    elif self.how == 'max':
      x = pool_max(x, mask, ratio, receptive_field(ratio))
    elif self.how == 'average':
      x = pool_mean(x, mask, ratio, receptive_field(ratio))
    else:
      x = pool_mean(x, mask, ratio, centre(ratio))
    dense = lambda part: Dense(F, name=f'{part}_{self.names[layer]}', **self._weights())  # noqa: E731
    return dense('embed')(nn.relu(dense('hidden')(x)))

  def _weights(self) -> dict:
    return {'kernel_init': self.kernel_init, 'dtype': self.dtype, 'param_dtype': self.param_dtype}
