"""Layers are those of Flax, but sum gradients in float32, ``StepDense`` after a scan over words."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from tests.cases import CASES, V
from tests.made_up import make_inputs, make_targets
from vidcap_jax import models
from vidcap_jax.decoding import scan
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.models import captioner as captioners
from vidcap_jax.models.captioner import Captioner, init_params
from vidcap_jax.models.layers.dense import Dense, Embed, StepDense, product
from vidcap_jax.objectives.word_log_probs import log_probs_of
from vidcap_jax.training.cost import inner_programs

PARAMS = {'kernel': np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)}
PARAMS['bias'] = np.array([10.0, 20.0], np.float32)


def test_known_values():
  x = jnp.array([[1.0, 0.0, 2.0], [0.0, -1.0, 0.0]])
  y = StepDense(2).apply({'params': PARAMS}, x)
  np.testing.assert_array_equal(y, [[21.0, 34.0], [7.0, 16.0]])


def test_parameters_are_those_of_dense():
  x = jnp.ones((1, 3))
  made, expected = (layer(2).init(jax.random.key(0), x) for layer in (StepDense, nn.Dense))
  jax.tree.map(np.testing.assert_array_equal, made, expected)


def bind(params):
  """A captioner of which only ``step`` is defined: one layer."""
  step = functools.partial(StepDense(2).apply, {'params': params})
  return Captioner(None, None, None, step, None, None, params, bind)


def test_the_gradient_in_a_scan_is_the_sum_over_words():
  x = jnp.array([[[1.0, 2.0, 3.0]], [[10.0, 20.0, 30.0]]])  # (L, B, D)

  def loss(params):
    body = lambda captioner, memory, state, x: (state, captioner.step(x))  # noqa: E731
    return scan.scan(bind(params), body, None, 0.0, x)[1].sum()

  gradient = jax.grad(loss)(PARAMS)
  np.testing.assert_array_equal(gradient['kernel'], [[11.0, 11.0], [22.0, 22.0], [33.0, 33.0]])
  np.testing.assert_array_equal(gradient['bias'], [2.0, 2.0])


ROWS, D, F = 4099, 3, 5


@pytest.mark.parametrize('layer', [Dense, StepDense])
def test_float32_is_that_of_flax(layer):
  x = jax.random.normal(jax.random.key(1), (2, 4, D))
  params = nn.Dense(F).init(jax.random.key(0), x)
  run = lambda module: jax.value_and_grad(lambda p, x: (module.apply(p, x) ** 2).sum(), (0, 1))  # noqa: E731
  jax.tree.map(np.testing.assert_array_equal, run(layer(F))(params, x), run(nn.Dense(F))(params, x))


def bfloat16_gradients(module, flax_module):
  """Values and gradients of a layer and of Flax's, on rows that are all alike."""
  x = jnp.full((ROWS, D), 1.0, jnp.bfloat16)
  params = module.init(jax.random.key(0), x)
  assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
  np.testing.assert_array_equal(module.apply(params, x), flax_module.apply(params, x))
  gradients = jax.grad(lambda p, x: module.apply(p, x).astype(jnp.float32).sum(), (0, 1))
  return gradients(params, x)


def test_bfloat16_gradients_are_summed_in_float32():
  """4,099 is no number of bfloat16."""
  module = Dense(F, dtype=jnp.bfloat16)
  of_params, of_x = bfloat16_gradients(module, nn.Dense(F, dtype=jnp.bfloat16))
  np.testing.assert_array_equal(of_params['params']['bias'], np.full(F, ROWS))
  np.testing.assert_array_equal(of_params['params']['kernel'], np.full((D, F), ROWS))
  assert of_x.dtype == jnp.bfloat16


def test_a_vector_as_kernel():
  x = jax.random.normal(jax.random.key(0), (2, 3, D)).astype(jnp.bfloat16)
  kernel = jnp.arange(1.0, D + 1)
  found = jax.grad(lambda k, x: product(x, k).astype(jnp.float32).sum(), (0, 1))(kernel, x)
  np.testing.assert_allclose(found[0], x.astype(jnp.float32).sum((0, 1)), rtol=1e-6)
  np.testing.assert_array_equal(found[1], jnp.broadcast_to(kernel, x.shape))
  np.testing.assert_array_equal(product(x, kernel), x @ kernel.astype(jnp.bfloat16))


def test_a_frequent_word_gets_the_sum_of_its_gradients():
  module = Embed(2, F, dtype=jnp.bfloat16)
  words = jnp.zeros(ROWS, jnp.int32)
  params = module.init(jax.random.key(0), words)
  expected = nn.Embed(2, F, dtype=jnp.bfloat16).apply(params, words)
  np.testing.assert_array_equal(module.apply(params, words), expected)
  grads = jax.grad(lambda p: module.apply(p, words).astype(jnp.float32).sum())(params)
  np.testing.assert_array_equal(grads['params']['embedding'], [[ROWS] * F, [0] * F])


def sums_in_bfloat16(program, rows):
  """Operations of a program that sum over all ``rows`` (a prime factor of the axes) in bfloat16."""
  for equation in program.eqns:
    name, params = equation.primitive.name, equation.params
    for inner in inner_programs(params):
      yield from sums_in_bfloat16(inner, rows)
    if name not in ('reduce_sum', 'dot_general', 'scatter-add'):
      continue
    read = equation.invars[2 if name == 'scatter-add' else 0].aval
    axes = {
      'reduce_sum': params.get('axes'),
      'dot_general': params.get('dimension_numbers', ((None,),))[0][0],
    }.get(name, range(read.ndim))
    is_over_rows = math.prod(read.shape[axis] for axis in axes) % rows == 0
    if is_over_rows and equation.outvars[0].aval.dtype == jnp.bfloat16:
      yield f'{name} of {read} gives {equation.outvars[0].aval}'


@pytest.mark.parametrize('name', ['temporal', 'spatial', 'stats', 'refocus', 'dual_afr-mlp'])
def test_no_model_sums_over_rows_in_bfloat16(name):
  """The rows of a batch, 13 of them, are an axis of every such sum and of no other."""
  case, rows = next(case for case in CASES if case.name == name), 13
  module = models.build(case.settings, V, 'bfloat16')
  inputs, targets = make_inputs(case, B=rows), make_targets(B=rows)
  params = jax.eval_shape(
    lambda: init_params(module, jax.random.key(0), jax.tree.map(lambda x: x[:1], inputs))
  )

  def loss(params, inputs, targets):
    captioner = captioners.bind(module, params)
    noise = captioner.noise(jax.random.key(0), inputs, *targets.shape[1:])
    memory = captioner.encode(inputs, noise.encoder, train=True)
    hidden = teacher_forcing(captioner, memory, targets, noise.steps, train=True).hidden
    return log_probs_of(captioner, hidden, targets).sum()

  program = jax.make_jaxpr(jax.grad(loss))(params, inputs, targets)
  assert not list(sums_in_bfloat16(program.jaxpr, rows))
