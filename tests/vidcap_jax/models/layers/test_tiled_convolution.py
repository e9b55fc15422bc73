import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from tests.x64 import enable_x64
from vidcap_jax.distributed.mesh import batch_sharded_over, by_row, make_mesh, replicated
from vidcap_jax.models.layers import tiled_convolution
from vidcap_jax.models.layers.alignment import cells, pool_max
from vidcap_jax.models.layers.frequency_tiles import Grid
from vidcap_jax.models.layers.tiled_convolution import (
  TiledConvolution,
  convolve_and_pool,
  is_worthwhile,
)
from vidcap_jax.training.cost import cost_of

pytestmark = pytest.mark.usefixtures('strict_dtypes')

POOL2, POOL3, POOL4 = ((28, 128, 7, 8), (14, 256, 5, 4), (7, 512, 3, 2))


def direct(x, mask, kernel, bias, ratio):
  """The convolution as the paper writes it."""
  numbers = ('NDHWC', 'DHWIO', 'NDHWC')
  y = jax.lax.conv_general_dilated(x, kernel, (1, 1, 1), 'SAME', dimension_numbers=numbers)
  return pool_max(nn.relu(y + bias.reshape(1, 1, 1, 1, -1)), mask, ratio, cells(ratio))


def example(shape, taps, features, valid=0.7):
  """An input (B, T, R, C, D), zero at masked cells, its mask, a kernel and a bias."""
  rng = np.random.default_rng(0)
  mask = rng.random(shape[:-1]) < valid
  mask[0, shape[1] - shape[1] // 2 :] = False  # the first video is shorter
  x = rng.normal(size=shape) * mask[..., None]
  return x, mask, rng.normal(size=(*taps, shape[-1], features)), rng.normal(size=features)


def gradients(function, ratio, arguments, **options):
  """The values of a function, and the gradients to input, kernel and bias."""
  x, mask, kernel, bias = arguments
  weights = np.random.default_rng(1).normal(
    size=jax.eval_shape(lambda: function(*arguments, ratio)).shape
  )

  def loss(x, kernel, bias):
    y = function(x, mask, kernel, bias, ratio)
    return (y * jnp.asarray(weights, y.dtype)).sum(), y

  found, y = jax.jit(jax.grad(loss, (0, 1, 2), has_aux=True))(x, kernel, bias)
  return y, *found


def assert_close(found, expected, tolerance):
  for a, b in zip(found, expected):
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.abs(b).max()))


@pytest.mark.parametrize('dtype', [np.float32, np.float64])
@pytest.mark.parametrize(
  ('shape', 'taps', 'features', 'ratio'),
  [
    ((2, 19, 11, 9, 3), (7, 7, 7), 5, 8),  # several tiles on an axis; none divides it
    ((2, 1, 5, 5, 2), (5, 5, 5), 3, 4),  # a frame
    ((1, 13, 1, 4, 2), (3, 5, 7), 130, 2),  # several chunks of channels; one row
    ((3, 4, 3, 3, 1), (7, 7, 7), 1, 3),  # a map smaller than the kernel
  ],
)
def test_values_and_gradients_are_those_of_a_direct_convolution(
  shape, taps, features, ratio, dtype
):
  x64 = dtype == np.float64
  with enable_x64(x64):
    x, mask, *weights = example(shape, taps, features)
    arguments = [jnp.asarray(a, dtype) for a in (x, *weights)]
    arguments.insert(1, jnp.asarray(mask))
    found = gradients(convolve_and_pool, ratio, arguments)
    assert all(a.dtype == dtype for a in found)
    assert_close(found, gradients(direct, ratio, arguments), 1e-12 if x64 else 2e-6)


def test_windows_without_a_valid_or_positive_cell():
  """They are 0 and have no gradient; the others have that of one cell each."""
  mask = np.ones((1, 4, 4, 4), bool)
  mask[:, :, :2, :2] = False
  x = jnp.asarray(mask[..., None], jnp.float32)
  kernel = jnp.zeros((3, 3, 3, 1, 2)).at[1, 1, 1, 0].set(jnp.asarray([1.0, -1.0]))
  arguments = (x, jnp.asarray(mask), kernel, jnp.zeros(2))
  y, *found = gradients(lambda *a: 2 * convolve_and_pool(*a), 2, arguments)
  np.testing.assert_allclose(y[0, :, :, :, 0], [[[0, 2], [2, 2]]] * 2, atol=1e-6)
  np.testing.assert_array_equal(y[..., 1], 0)
  assert abs(found[2][0]) > 0
  np.testing.assert_array_equal(found[2][1], 0)
  np.testing.assert_array_equal(found[1][..., 1], 0)


def test_padding_of_a_batch_changes_nothing():
  """A video alone and the same with 7 more frames, which are masked."""
  x, mask, *weights = example((1, 9, 6, 6, 2), (5, 5, 5), 3)
  weights = [jnp.float32(w) for w in weights]
  convolve = lambda x, mask: convolve_and_pool(jnp.float32(x), mask, *weights, 4)  # noqa: E731
  more = [(0, 0), (0, 7), (0, 0), (0, 0)]
  alone = convolve(x, jnp.asarray(mask))
  padded = convolve(np.pad(x, [*more, (0, 0)]), jnp.asarray(np.pad(mask, more)))
  np.testing.assert_allclose(padded[:, :3], alone, atol=1e-4)
  np.testing.assert_array_equal(padded[:, 3:], 0)


def test_bfloat16_is_as_close_as_a_direct_convolution():
  x, mask, kernel, bias = example((2, 16, 9, 9, 8), (7, 7, 7), 4)
  exact = gradients(direct, 8, (jnp.float32(x), mask, jnp.float32(kernel), jnp.float32(bias)))
  low = jnp.asarray(x, jnp.bfloat16)
  found = gradients(convolve_and_pool, 8, (low, mask, jnp.float32(kernel), jnp.float32(bias)))
  assert [a.dtype for a in found] == [jnp.bfloat16, jnp.bfloat16, jnp.float32, jnp.float32]
  reference = gradients(direct, 8, (low, mask, *(jnp.bfloat16(w) for w in (kernel, bias))))
  for a, b, c in zip(found, exact, reference):
    error, error_of_direct = (np.linalg.norm(np.float32(v) - b) for v in (a, c))
    assert error < 1.5 * error_of_direct + 1e-6


def test_parameters_are_those_of_a_convolution():
  """Checkpoints of a direct convolution can be read, and seeds give the same start."""
  x = jnp.zeros((1, 4, 3, 3, 2))
  init = nn.initializers.uniform(0.1)
  settings = {'kernel_init': init, 'param_dtype': jnp.float32}
  expected = nn.Conv(5, (3, 5, 7), **settings).init(jax.random.key(3), x)
  tiled = TiledConvolution(5, (3, 5, 7), 2, **settings)
  found = tiled.init(jax.random.key(3), x, jnp.ones(x.shape[:-1], bool))
  jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize('batch', [1, 4, 32])
@pytest.mark.parametrize('units', [1, 4, 8])
def test_which_layers_are_convolved_by_tiles(batch, units):
  """dualAFR's 7^3 kernel always, 3^3 never."""

  def chosen(layer):
    cells, channels, taps, ratio = layer
    return is_worthwhile((batch, units * ratio, cells, cells, channels), (taps,) * 3, 512)

  assert chosen(POOL2)
  assert not chosen(POOL4)
  assert chosen(POOL3) or batch < 32
  assert not is_worthwhile((2, 8, 8, 8, 16), (3, 3, 3), 16)  # as in tests and examples


@pytest.mark.parametrize(('layer', 'fewer'), [(POOL2, 25), (POOL3, 8)])
def test_operations_of_a_training_step(layer, fewer):
  """Forward and gradient of the kernel, as XLA counts them, for MSR-VTT's batch of 32."""
  R, D, taps, ratio = layer
  x = jax.ShapeDtypeStruct((32, 4 * ratio, R, R, D), jnp.float32)
  mask = jax.ShapeDtypeStruct(x.shape[:-1], bool)
  kernel = jax.ShapeDtypeStruct((taps, taps, taps, D, 512), jnp.float32)
  bias = jax.ShapeDtypeStruct((512,), jnp.float32)

  def loss(function):
    return lambda kernel, bias, x, mask: function(x, mask, kernel, bias, ratio).sum()

  cost = lambda f: cost_of(jax.grad(loss(f), (0, 1)), kernel, bias, x, mask).flops  # noqa: E731
  by_tiles, in_one = cost(convolve_and_pool), cost(direct)
  assert fewer * by_tiles < in_one
  # The gradient of features is not computed unless it is asked for.
  with_input = cost_of(jax.grad(loss(convolve_and_pool), (0, 1, 2)), kernel, bias, x, mask).flops
  assert with_input > 1.2 * by_tiles
  forward = cost_of(loss(convolve_and_pool), kernel, bias, x, mask).flops
  counted = 2 * Grid(x.shape[1:4], (taps,) * 3).operations(32, D, 512)
  assert forward == pytest.approx(counted, rel=0.1)


def test_output_before_pooling_is_not_kept(monkeypatch):
  """Saved for the gradient is less than half of the output before pooling."""
  monkeypatch.setattr(tiled_convolution, '_CHANNELS', 8)
  x, mask, kernel, bias = example((2, 16, 16, 16, 2), (5, 5, 5), 64)
  function = lambda w: convolve_and_pool(jnp.float32(x), mask, w, jnp.float32(bias), 8)  # noqa: E731
  _, pull = jax.vjp(function, jnp.float32(kernel))
  saved = sum(a.nbytes for a in jax.tree.leaves(pull))
  assert saved < 2 * 16**3 * 64 * 4 / 2


def test_shards_of_a_batch_exchange_gradients_as_large_as_the_kernel():
  """Not its transform, which is many times as large."""
  mesh = make_mesh()
  x, mask, *weights = example((8, 9, 8, 8, 2), (5, 5, 5), 3)
  sharded = [jax.device_put(a, by_row(mesh)) for a in (jnp.float32(x), jnp.asarray(mask))]
  weights = [jax.device_put(jnp.float32(w), replicated(mesh)) for w in weights]

  def gradient(kernel, bias, x, mask):
    loss = lambda kernel, bias: (convolve_and_pool(x, mask, kernel, bias, 4) ** 2).sum()  # noqa: E731
    with batch_sharded_over(mesh):
      return jax.grad(loss, (0, 1))(kernel, bias)

  compiled = jax.jit(gradient).lower(*weights, *sharded).compile()
  results = re.findall(r'= (.*) all-reduce\(', compiled.as_text())
  shapes = re.findall(r'f32\[([\d,]+)\]', ' '.join(results))
  sizes = sorted(math.prod(map(int, shape.split(','))) for shape in shapes)
  assert sizes == sorted(w.size for w in weights)
  assert 'all-gather' not in compiled.as_text()
  alone = jax.jit(jax.grad(lambda w, b: (direct(x, mask, w, b, 4) ** 2).sum(), (0, 1)))
  x = jnp.float32(x)
  for a, b in zip(compiled(*weights, *sharded), alone(*map(np.asarray, weights))):
    np.testing.assert_allclose(a, b, atol=1e-5 * np.abs(b).max())
