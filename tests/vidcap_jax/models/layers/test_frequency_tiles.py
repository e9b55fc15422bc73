import jax
import jax.numpy as jnp
import numpy as np

from vidcap_jax.models.layers import frequency_tiles
from vidcap_jax.models.layers.frequency_tiles import Grid, Tiles


def test_tiles_cover_an_axis():
  """Every tile reads the cells under its outputs and a kernel's reach more, zero outside."""
  tiles = Tiles(19, 7)
  assert (tiles.count, tiles.outputs, tiles.points) == (2, 10, 16)
  assert Tiles(28, 7).count == 2
  assert Tiles(32, 7).count == 2
  assert Tiles(1, 3).count == 1
  read = np.abs(tiles.of_input()).max(axis=0) > 0  # (tiles, cells)
  np.testing.assert_array_equal(read[0], np.arange(19) < 13)
  np.testing.assert_array_equal(read[1], np.arange(19) >= 7)


def test_transposed_transforms_are_those_of_jax():
  grid = Grid((9, 4, 5), (3, 5, 3))
  shapes = {
    frequency_tiles.input_steps: (2, 9, 4, 5, 3),
    frequency_tiles.kernel_steps: (3, 5, 3, 3, 2),
  }
  rng = np.random.default_rng(0)
  for steps, shape in shapes.items():
    transform = lambda x, steps=steps: frequency_tiles.apply(steps(grid), x)  # noqa: E731
    x = jnp.zeros(shape)
    y = jnp.float32(rng.normal(size=jax.eval_shape(transform, x).shape))
    (expected,) = jax.linear_transpose(transform, x)(y)
    found = frequency_tiles.apply_transposed(steps(grid), y)
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_joining_tiles_and_its_transpose():
  grid = Grid((9, 4, 5), (3, 3, 3))
  x = np.random.default_rng(0).normal(size=(2, *grid.sizes, 3)).astype(np.float32)
  split = frequency_tiles.split_tiles(grid, jnp.asarray(x))
  assert split.shape == (2, 2, 5, 1, 4, 1, 5, 3)
  np.testing.assert_array_equal(frequency_tiles.join_tiles(grid, split), x)
  np.testing.assert_array_equal(split[:, 1, 4], 0)  # outputs beyond the map
