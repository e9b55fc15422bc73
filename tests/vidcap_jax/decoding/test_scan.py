"""Gradients taken after the last word are those of the plain scan."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import CASES, V
from tests.made_up import B, L, S, Setup, close, make_inputs, make_targets
from tests.scans import carried_shapes
from vidcap_jax import models
from vidcap_jax.decoding import scan as late
from vidcap_jax.decoding.unroll import sample_on_tape, teacher_forcing
from vidcap_jax.models.captioner import bind, init_params

ONE_OF_EACH = ('temporal', 'stats', 'global2local', 'refocus', 'dual_afr-soft', 'transformer')
EVERY_TIME = ONE_OF_EACH[:1]
DRAWS = np.random.default_rng(0).uniform(size=(L, B, S)).astype(np.float32)


def marked(case):
  return pytest.param(case, marks=() if case.name in EVERY_TIME else pytest.mark.slow, id=case.name)


@pytest.fixture(scope='module', params=[marked(case) for case in CASES if case.name in ONE_OF_EACH])
def setup(request):
  return Setup(request.param)


def test_one_case_of_each_model():
  assert {case.name for case in CASES} >= set(ONE_OF_EACH)


def loss_of(setup, *, plain, on_tape=False):
  """A loss whose gradient every hidden state's every channel enters with a weight of its own."""

  def loss(params, inputs, targets):
    captioner = dataclasses.replace(bind(setup.module, params), teacher_force=None)
    if plain:
      captioner = dataclasses.replace(captioner, rebind=None)
    noise = captioner.noise(jax.random.key(0), inputs, S, L)
    memory = captioner.encode(inputs, noise.encoder, train=True)
    if on_tape:
      unrolled = sample_on_tape(captioner, memory, DRAWS, noise.steps)[1]
    else:
      unrolled = teacher_forcing(captioner, memory, targets, noise.steps, train=True)
    weights = jnp.sin(jnp.arange(unrolled.hidden.size)).reshape(unrolled.hidden.shape)
    return (weights * unrolled.hidden).sum() + unrolled.aux.sum()

  return jax.jit(jax.value_and_grad(loss))(setup.params, setup.inputs, setup.targets)


@pytest.mark.parametrize(
  'on_tape',
  [False, pytest.param(True, marks=pytest.mark.slow)],
  ids=['teacher_forcing', 'on_tape'],
)
def test_gradients_are_those_of_the_plain_scan(setup, on_tape):
  loss = loss_of(setup, plain=False, on_tape=on_tape)
  close(jax.device_get(loss), jax.device_get(loss_of(setup, plain=True, on_tape=on_tape)), 2e-5)


def test_no_scan_sums_gradients_as_large_as_the_weights():
  setup = Setup(next(case for case in CASES if case.name == 'temporal'))

  def carried(plain):
    function = functools.partial(_loss, setup.module, plain)
    shapes = carried_shapes(jax.grad(function), setup.params, setup.inputs, setup.targets)
    layer = setup.params['lstm2_state']
    return [shapes.count(layer[name].shape) for name in ('kernel', 'bias')]

  assert carried(plain=True) == [1, 2]  # both LSTMs have a bias of that shape
  assert carried(plain=False) == [0, 0]


MATRICES_CASES = (
  'stats on two streams with categories',
  'global2local',
  'refocus',
  'dual_afr-soft',
)


@pytest.mark.parametrize(
  'case', [c for c in CASES if c.name in MATRICES_CASES], ids=lambda c: c.name
)
def test_no_scan_of_any_model_sums_gradients_of_matrices(case):
  """Except for the LSTM that pools all frames for each word: its states would be large to keep."""
  rows = 13  # unlike all other sizes
  inputs, module = make_inputs(case, B=rows), models.build(case.settings, V)
  params = jax.eval_shape(functools.partial(init_params, module), jax.random.key(0), inputs)
  gradient = jax.grad(functools.partial(_loss, module, False))
  carried = carried_shapes(gradient, params, inputs, make_targets(B=rows))
  for path, weight in jax.tree_util.tree_leaves_with_path(params):
    if weight.ndim > 1 and 'pool' not in jax.tree_util.keystr(path):
      assert weight.shape not in carried, path


def _loss(module, plain, params, inputs, targets):
  captioner = bind(module, params)
  if plain:
    captioner = dataclasses.replace(captioner, rebind=None)
  memory = captioner.encode(inputs, None, train=True)
  unrolled = teacher_forcing(captioner, memory, targets, train=True)
  return unrolled.hidden.sum() + unrolled.aux.sum()


def test_a_scan_without_gradients_is_the_plain_one():
  captioner = dataclasses.replace(bind(None, {}), rebind=None)
  body = lambda captioner, memory, state, x: (state + memory * x, state)  # noqa: E731
  state, out = late.scan(captioner, body, 2.0, 0.0, jnp.arange(3.0))
  assert (state, out.tolist()) == (6.0, [0.0, 0.0, 2.0])
