"""``StepDense`` is an ``nn.Dense``, and its kernel's gradient in a scan is the sum over words."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from vidcap_jax.decoding import scan
from vidcap_jax.models.captioner import Captioner
from vidcap_jax.models.layers.dense import StepDense

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
