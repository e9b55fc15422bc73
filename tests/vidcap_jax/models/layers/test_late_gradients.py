"""Gradients taken after the last round are those of ``jax.lax.scan``."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.scans import carried_shapes
from vidcap_jax.models.captioner import Inputs
from vidcap_jax.models.embedding import Embedding, EmbeddingConfig
from vidcap_jax.models.layers import late_gradients
from vidcap_jax.models.layers.kbigru import KBiGRU
from vidcap_jax.models.layers.ranked import TemporalPool
from vidcap_jax.models.layers.recurrent import LSTMEncoder

pytestmark = pytest.mark.usefixtures('strict_dtypes')

L, B, T, D, H = 6, 3, 4, 7, 5


def draw(seed, *shape):
  return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


PARAMS = {'a': {'kernel': draw(0, H, H), 'bias': draw(1, H)}, 'scale': draw(2, 1, H)}


def step(params, constants, h, x, observe):
  """Two calls of a layer, and a parameter that is not observed."""
  layer = params['a']
  for _ in range(2):
    bias = jnp.broadcast_to(layer['bias'], h.shape)
    h = jnp.tanh(observe(('a',), h, lambda h, bias=bias: h @ layer['kernel'] + bias) + x)
  return h * params['scale'] + constants, h.sum(axis=-1)


def results(scan):
  def loss(params, constants, init, xs):
    h, sums = scan(step, params, constants, init, xs)
    return jnp.sin(h).sum() + (jnp.arange(1.0, L + 1)[:, None] * sums).sum()

  arguments = PARAMS, draw(3, B, H), draw(4, B, H), draw(5, L, B, H)
  return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2, 3)))(*arguments)


def plain_scan(step, params, constants, init, xs):
  observe = lambda path, x, layer: layer(x)  # noqa: E731
  return jax.lax.scan(lambda h, x: step(params, constants, h, x, observe), init, xs)


def test_gradients_are_those_of_the_plain_scan():
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6),
    results(late_gradients.scan),
    results(plain_scan),
  )


def test_weights_that_are_observed_are_not_carried():
  def carried(scan):
    shapes = carried_shapes(
      jax.grad(lambda *args: scan(step, *args)[0].sum()),
      *(PARAMS, draw(3, B, H), draw(4, B, H), draw(5, L, B, H)),
    )
    return [shapes.count(shape) for shape in ((H, H), (H,), (1, H))]

  assert carried(plain_scan) == [1, 1, 1]
  assert carried(late_gradients.scan) == [0, 0, 1]


def test_no_round_reads_a_transposed_kernel():
  """A CPU's product of few rows with one takes up to four times as long."""

  def in_rounds(scan):
    loss = lambda *args: scan(step, *args)[0].sum()  # noqa: E731
    arguments = PARAMS, draw(3, B, H), draw(4, B, H), draw(5, L, B, H)
    program = jax.jit(jax.grad(loss, argnums=2)).lower(*arguments).compile().as_text()
    return program.count('rhs_contracting_dims={1}')

  assert in_rounds(plain_scan) == 2  # calls of the layer
  assert in_rounds(late_gradients.scan) == 0


def test_bfloat16_products_are_summed_in_float32():
  """257 is no number of bfloat16."""
  ones = jnp.ones((257, 1, 1), jnp.bfloat16)

  def last(params):
    def step(params, _, state, x, observe):
      y = observe((), x, lambda x: x @ params['kernel'].astype(x.dtype))
      return state + y.astype(state.dtype).sum(), None

    return late_gradients.scan(step, params, None, jnp.zeros(()), ones)[0]

  assert jax.grad(last)({'kernel': jnp.ones((1, 1))})['kernel'] == 257


def lstm_encoder():
  return LSTMEncoder(H), (draw(0, B, T, D), jnp.ones((B, T), bool)), lambda m, *a: m(*a)


def temporal_pool():
  frames, mask = draw(0, B, 1, T, D), jnp.ones((B, T), bool)
  return TemporalPool('mean_ranked'), (frames, mask), lambda m, *a: m(*a)[0]


def kbigru():
  arguments = draw(0, B, T, D), jnp.ones((B, T), bool), jnp.array([0, 1, 3], jnp.int32)
  return KBiGRU(H), arguments, lambda m, x, *a: m(m.inputs(x), *a)


def sentence_encoder():
  module = Embedding(EmbeddingConfig(9, ('image',), hidden=H, embed=D))
  words = jnp.ones((B, 2, L), jnp.int32)

  def encode(m, words, mask):
    videos = Inputs({'image': jnp.ones((B, T, D))}, {'image': jnp.ones((B, T), bool)})
    return m.embed_captions(words, mask) + m.embed_videos(videos)[:, None]

  return module, (words, words > 0), encode


@pytest.mark.parametrize('make', [lstm_encoder, temporal_pool, kbigru, sentence_encoder])
def test_encoders_carry_no_gradient_of_a_weight(make):
  module, arguments, method = make()
  initialise = functools.partial(module.init, method=method)
  params = jax.eval_shape(initialise, jax.random.key(0), *arguments)
  loss = lambda params: module.apply(params, *arguments, method=method).sum()  # noqa: E731
  carried = carried_shapes(jax.grad(loss), params)
  assert carried
  weights = {leaf.shape for leaf in jax.tree.leaves(params) if leaf.ndim > 1}
  assert not [shape for shape in carried if shape in weights]
