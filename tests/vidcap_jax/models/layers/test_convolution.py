"""The convolution is that of Flax, but sums gradients in float32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from vidcap_jax.models.layers.convolution import Convolution

pytestmark = pytest.mark.usefixtures('strict_dtypes')

TAPS, F, D = (5, 3, 1), 3, 2


def layers(dtype):
  init = nn.initializers.normal(1.0)
  kept = {'kernel_init': init, 'dtype': dtype}
  return Convolution(F, TAPS, **kept), nn.Conv(F, TAPS, **kept)


def draw(*shape):
  return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


def test_float32_is_that_of_flax():
  x, weights = draw(2, 6, 4, 3, D), draw(2, 6, 4, 3, F)
  made, flax = layers(jnp.float32)
  with jax.numpy_rank_promotion('allow'):
    params = flax.init(jax.random.key(0), x)
    jax.tree.map(np.testing.assert_array_equal, made.init(jax.random.key(0), x), params)
    params['params']['bias'] = draw(F)
    run = lambda layer: jax.value_and_grad(  # noqa: E731
      lambda p, x: (weights * layer.apply(p, x)).sum(), (0, 1)
    )(params, x)
    jax.tree.map(np.testing.assert_array_equal, run(made), run(flax))


def test_bfloat16_gradients_are_those_of_the_float32_convolution():
  """x and dy are numbers of bfloat16, so that float32 sums leave no more than its rounding."""
  x = draw(2, 7, 6, 4, D).astype(jnp.bfloat16)
  weights = draw(2, 7, 6, 4, F).astype(jnp.bfloat16)
  made, flax = layers(jnp.bfloat16)
  params = made.init(jax.random.key(0), x)
  rounded = jax.tree.map(lambda p: p.astype(jnp.bfloat16).astype(p.dtype), params)
  with jax.numpy_rank_promotion('allow'):
    np.testing.assert_array_equal(made.apply(params, x), flax.apply(params, x))
    of_layer = lambda layer: jax.grad(  # noqa: E731
      lambda p, x: (weights.astype(jnp.float32) * layer.apply(p, x).astype(jnp.float32)).sum(),
      (0, 1),
    )
    of_params, of_x = of_layer(made)(params, x)
    expected, _ = of_layer(layers(jnp.float32)[0])(rounded, x.astype(jnp.float32))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5), of_params, expected
  )
  assert of_x.dtype == jnp.bfloat16


def test_a_bias_counts_all_of_many_cells():
  """4,099 is no number of bfloat16, in which Flax sums."""
  x = jnp.ones((1, 4099, 1, 1, D), jnp.bfloat16)
  module, _ = layers(jnp.bfloat16)
  params = module.init(jax.random.key(0), x)
  gradient = jax.grad(lambda p: module.apply(p, x).astype(jnp.float32).sum())(params)['params']
  np.testing.assert_array_equal(gradient['bias'], np.full(F, 4099))
  # The middle tap reads all cells, the others one or two fewer.
  np.testing.assert_array_equal(gradient['kernel'][:, 1, 0, 0, 0], [4097, 4098, 4099, 4098, 4097])
