"""Discrete Fourier transforms of overlapping tiles of 3D maps, for convolutions.

A map is cut into tiles of n = m + k - 1 points an axis for m outputs and a kernel of k taps. The
product of the transforms of tile and kernel, frequency by frequency, is that of the m^3 outputs.

Transforms are products with small constant matrices, one for each axis, which contain the tiles'
overlap and the zero padding: all operations are ``dot_general``. Letters of their equations:

  b video, e group of videos; c, d channels of input and output; p, q real and imaginary parts;
  s factors of complex products; time, rows, columns: t, i, j cells of the input; k, f, h
  frequencies; a, g, l tiles; u, v, w taps of the kernel, or outputs of a tile

The input is real, so half of the frequencies of time give the other half.
"""

import dataclasses
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array
Steps = Sequence[tuple[str, np.ndarray]]  # einsum equations and their first operands


@dataclasses.dataclass(frozen=True)
class Tiles:
  """The tiles of one axis: ``count`` with ``outputs`` each.

  Larger tiles need fewer operations but more memory for the kernel's transform, which has as many
  points as a tile. Up to 2.5 outputs for each tap of the kernel was best for dualAFR's layers.
  """

  size: int
  taps: int

  @property
  def count(self) -> int:
    return -(-self.size // (5 * self.taps // 2))

  @property
  def outputs(self) -> int:
    return -(-self.size // self.count)

  @property
  def points(self) -> int:
    """n: the cells that a tile reads, and its frequencies."""
    return self.outputs + self.taps - 1

  def of_input(self) -> np.ndarray:
    """Cells to the frequencies of each tile, zero outside: complex (n, count, size)."""
    n, size = self.points, self.size
    waves = self._waves(-1, n)  # (frequencies, cells of a tile)
    matrix = np.zeros((n, self.count, size), complex)
    for tile in range(self.count):
      first = tile * self.outputs - self.taps // 2
      inside = np.arange(max(0, -first), min(n, size - first))
      matrix[:, tile, first + inside] = waves[:, inside]
    return matrix

  def of_kernel(self) -> np.ndarray:
    """Taps to frequencies, conjugate for a correlation: complex (n, taps)."""
    return self._waves(1, self.taps)

  def to_outputs(self) -> np.ndarray:
    """Frequencies to the outputs of a tile: complex (outputs, n)."""
    return self._waves(1, self.outputs).T / self.points

  def _waves(self, sign: int, cells: int) -> np.ndarray:
    """exp(sign 2 pi i f x / n) for all frequencies f and the first cells x: (n, cells)."""
    angles = np.outer(np.arange(self.points), np.arange(cells)) % self.points
    return np.exp(sign * 2j * np.pi * angles / self.points)


@dataclasses.dataclass(frozen=True)
class Grid:
  """The tiles of time, rows and columns.

  Attributes:
    sizes: of a map, (T, rows, columns).
    taps: of the kernel along each axis, odd numbers.
  """

  sizes: tuple[int, int, int]
  taps: tuple[int, int, int]

  @property
  def axes(self) -> tuple[Tiles, Tiles, Tiles]:
    time, rows, columns = (Tiles(size, taps) for size, taps in zip(self.sizes, self.taps))
    return time, rows, columns

  @property
  def half(self) -> int:
    """The frequencies of time that are computed."""
    return self.axes[0].points // 2 + 1

  def operations(self, batch: int, channels: int, features: int) -> int:
    """Multiplications of a convolution by tiles: transforms and products."""
    time, rows, columns = self.axes
    R, C = self.sizes[1:]
    F, G, H, L = rows.points, rows.count, columns.points, columns.count
    K, A, kernel = self.half, time.count, math.prod(self.taps)
    products = 3 * A * G * L * K * F * H * batch * channels * features
    by_input = K * A * (2 * time.size * R * C + 4 * F * G * R * C + 6 * F * G * H * L * C)
    by_kernel = K * (2 * kernel + 4 * F * kernel // time.taps + 6 * F * H * columns.taps)
    m, V, W = time.outputs, rows.outputs, columns.outputs
    to_output = K * A * G * L * (6 * F * H * W + 4 * F * V * W + 2 * m * V * W)
    transforms = batch * (channels * by_input + features * to_output)
    return products + transforms + channels * features * by_kernel


def _real(matrix: np.ndarray, ndim: int) -> np.ndarray:
  """A complex matrix (*out, *in), with ``ndim`` axes out, on real parts: (2, *out, 2, *in)."""
  rows = [np.stack(row, ndim) for row in ((matrix.real, -matrix.imag), (matrix.imag, matrix.real))]
  return np.stack(rows)


# A product of complex numbers x and y by three real ones, z = (_FACTOR_X x) * (_FACTOR_Y y):
# (x_r + x_i) y_r, x_r (y_i - y_r), x_i (y_r + y_i). _SUM z is its real and imaginary part.
_FACTOR_X = np.array([[1, 1], [1, 0], [0, 1]])
_FACTOR_Y = np.array([[1, 0], [-1, 1], [1, 1]])
_SUM = np.array([[1, 0, -1], [1, 1, 0]])


def apply(steps: Steps, x: Array) -> Array:
  """A transform: products with constant matrices, one after another.

  They have full precision, since rounding here would spread over a whole tile.
  """
  for equation, matrix in steps:
    constant = jnp.asarray(matrix, x.dtype)
    x = jnp.einsum(equation, constant, x, precision=jax.lax.Precision.HIGHEST)
  return x


def apply_transposed(steps: Steps, x: Array) -> Array:
  """The transpose of ``apply``, for gradients.

  JAX's own transpose has the matrix on the right and needs copies in another order of axes.
  """
  swapped = []
  for equation, matrix in reversed(steps):
    start, end = equation.split('->')
    constant, start = start.split(',')
    swapped.append((f'{constant},{end}->{start}', matrix))
  return apply(swapped, x)


def input_steps(grid: Grid) -> Steps:
  """(B, T, R, C, D) to factors of all frequencies and tiles 'shfklgabc'."""
  time, rows, columns = (axis.of_input() for axis in grid.axes)
  time = time[: grid.half]
  return (
    ('pkat,btijc->pkabijc', np.stack([time.real, time.imag])),
    ('qfgpi,pkabijc->qfgkabjc', _real(rows, 2)),
    ('shlqj,qfgkabjc->shfklgabc', np.tensordot(_FACTOR_X, _real(columns, 2), 1)),
  )


def kernel_steps(grid: Grid) -> Steps:
  """(*taps, D, F) to factors of all frequencies 'shfkcd'."""
  time, rows, columns = (axis.of_kernel() for axis in grid.axes)
  time = time[: grid.half]
  return (
    ('pku,uvwcd->pkvwcd', np.stack([time.real, time.imag])),
    ('qfpv,pkvwcd->qfkwcd', _real(rows, 1)),
    ('shqw,qfkwcd->shfkcd', np.tensordot(_FACTOR_Y, _real(columns, 1), 1)),
  )


def output_steps(grid: Grid) -> Steps:
  """Products 'shfklgabd' to the outputs of each tile 'baugvlwd'."""
  time, rows, columns = (axis.to_outputs() for axis in grid.axes)
  time = 2 * time[:, : grid.half]  # a frequency and its conjugate
  time[:, 0] /= 2
  if grid.axes[0].points % 2 == 0:
    time[:, -1] /= 2
  return (
    ('qwsh,shfklgabd->wqfklgabd', np.einsum('qwph,ps->qwsh', _real(columns, 1), _SUM)),
    ('pvqf,wqfklgabd->vwpklgabd', _real(rows, 1)),
    ('upk,vwpklgabd->baugvlwd', np.stack([time.real, -time.imag], 1)),
  )


def join_tiles(grid: Grid, y: Array) -> Array:
  """'baugvlwd' to (B, T, R, C, F), without the outputs beyond the map."""
  sizes = (axis.count * axis.outputs for axis in grid.axes)
  y = y.reshape(y.shape[0], *sizes, y.shape[-1])
  T, R, C = grid.sizes
  return y[:, :T, :R, :C]


def split_tiles(grid: Grid, y: Array) -> Array:
  """The transpose of ``join_tiles``."""
  more = [(0, axis.count * axis.outputs - axis.size) for axis in grid.axes]
  y = jnp.pad(y, [(0, 0), *more, (0, 0)])
  tiles = [n for axis in grid.axes for n in (axis.count, axis.outputs)]
  return y.reshape(y.shape[0], *tiles, y.shape[-1])
