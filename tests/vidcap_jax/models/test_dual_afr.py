import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cases import CASES, V
from tests.made_up import S, Setup, make_inputs, rows
from vidcap_jax import models
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Inputs, bind, init_params
from vidcap_jax.models.dual_afr import DualAFRConfig

pytestmark = pytest.mark.usefixtures('strict_dtypes')


def case(name):
  return next(case for case in CASES if case.name == f'dual_afr-{name}')


@pytest.fixture(scope='module')
def soft():
  return Setup(case('soft'))


@pytest.fixture(scope='module')
def hard():
  return Setup(case('hard'))


def test_the_first_word_comes_from_the_top_alone(soft):
  """It moves with fc7 and not with the layers; the second word moves with them."""
  other = make_inputs(soft.case, seed=7)
  layers = dict(soft.inputs.features) | {k: other.features[k] for k in soft.case.blocks}
  before = soft.logits(soft.inputs)
  after = soft.logits(soft.inputs.replace(features=layers))
  np.testing.assert_array_equal(after[:, :, 0], before[:, :, 0])
  assert np.abs(after - before)[0, :, 1].max() > 1e-3
  features = dict(soft.inputs.features) | {'fc7': other.features['fc7']}
  after = soft.logits(soft.inputs.replace(features=features))
  assert np.abs(after - before)[0, :, 0].max() > 1e-3


def test_draws_are_given_by_the_noise(hard):
  """Their log-probability is that of the weights there; the first step draws nothing."""

  @jax.jit
  def run(params, inputs, targets, key):
    captioner = bind(hard.module, params)
    noise = captioner.noise(key, inputs, S, targets.shape[-1])
    steps = {name: noise.steps[name] for name in ('position', 'layer')}  # no dropout
    memory = captioner.encode(inputs, None, train=True)
    unrolled = teacher_forcing(captioner, memory, targets, steps, train=True, attention=True)
    return unrolled, steps

  args = (hard.params, hard.inputs, hard.targets)
  unrolled, numbers = run(*args, jax.random.key(0))
  expected = 0
  for name, number in (('spatiotemporal', 'position'), ('layer', 'layer')):
    weights = np.asarray(unrolled.attention[name], np.float64)
    below = np.cumsum(weights, -1) - weights
    index = (below <= np.asarray(numbers[number])[..., None]).sum(-1) - 1
    at = np.take_along_axis(weights, index[..., None], -1)[..., 0]
    expected = expected + np.log(np.where(at > 0, at, 1))
  log_prob = np.asarray(unrolled.draw_log_prob)
  close = np.abs(log_prob - expected) < 1e-4
  assert close.mean() > 0.95  # but where float32 sums put a number on the other side
  np.testing.assert_array_equal(log_prob[0], 0)
  np.testing.assert_array_equal(log_prob[:, 3], 0)  # a video without frames
  assert (log_prob[1:, :2] < 0).all()
  again, _ = run(*args, jax.random.key(0))
  np.testing.assert_array_equal(again.hidden, unrolled.hidden)
  other, _ = run(*args, jax.random.key(1))
  assert np.abs(np.asarray(other.hidden) - unrolled.hidden)[1:].max() > 1e-3


def test_initial_values():
  """Recurrent weights orthogonal, the others within the bounds, biases zero."""
  settings = {**case('soft').settings, 'init_scale': 0.01}
  module = models.build(settings, V)
  inputs = rows(make_inputs(case('soft')), slice(1))
  params = jax.jit(functools.partial(init_params, module))(jax.random.key(0), inputs)
  recurrent = np.asarray(params['lstm_state'].pop('kernel'))
  for gate in np.split(recurrent, 4, axis=1):
    np.testing.assert_allclose(gate.T @ gate, np.eye(8), atol=1e-5)
  for path, leaf in jax.tree.leaves_with_path(params):
    leaf = np.asarray(leaf)
    if path[-1].key == 'bias':
      np.testing.assert_array_equal(leaf, 0)
    else:
      assert np.abs(leaf).max() <= 0.01
      assert leaf.min() < 0 < leaf.max()


def test_the_model_of_the_paper_has_its_shapes():
  """At the published sizes, without computing anything; any number of frames."""
  config = DualAFRConfig(vocab_size=12594)
  assert config.needs.blocks == {'pool2': 8, 'pool3': 4, 'pool4': 2, 'pool5': 1}
  module = models.build({'name': 'dual_afr'}, 12594)
  sizes = {'pool2': (784, 128), 'pool3': (196, 256), 'pool4': (49, 512), 'pool5': (16, 512)}
  for units in (1, 3):
    features = {
      name: jax.ShapeDtypeStruct((2, units * config.needs.blocks[name], *size), jnp.float32)
      for name, size in sizes.items()
    }
    features['fc7'] = jax.ShapeDtypeStruct((2, 5, 4096), jnp.float32)
    masks = {k: jax.ShapeDtypeStruct(v.shape[:-1], jnp.bool_) for k, v in features.items()}
    inputs = Inputs(features, masks)
    params = jax.eval_shape(functools.partial(init_params, module), jax.random.key(0), inputs)
    memory = jax.eval_shape(
      lambda params, inputs: bind(module, params).encode(inputs, None, train=False), params, inputs
    )
    assert memory.values.shape == (2, 16 * units, 4 * 512)
  assert params['align']['convolve_pool2']['kernel'].shape == (7, 7, 7, 128, 512)
  assert params['words']['embedding'].shape == (12594, 300)
  assert params['lstm_context']['kernel'].shape == (512, 4 * 512)


@pytest.mark.parametrize('saved', [{}, {'embed_last': False}, {'embed_last': True}])
def test_a_config_from_before_embed_last_has_the_structure_of_its_checkpoint(saved):
  settings = {**case('max').settings, **saved}
  if not saved:
    del settings['embed_last']
  module = models.build(settings, V)
  inputs = rows(make_inputs(case('max')), slice(1))
  params = jax.eval_shape(functools.partial(init_params, module), jax.random.key(0), inputs)
  embedded = {'hidden_pool4', 'embed_pool4'}
  if saved.get('embed_last'):
    embedded |= {'hidden_pool5', 'embed_pool5'}
  assert set(params['align']) == embedded


@pytest.mark.parametrize(
  ('settings', 'message'),
  [
    ({'choice': 'maybe'}, "model.choice 'maybe'.*soft, hard"),
    ({'alignment': 'crop'}, "model.alignment 'crop'"),
    ({'convolution': 'fast'}, "model.convolution 'fast'"),
    ({'top': 'max'}, "model.top 'max'"),
    ({'embed_last': True}, "model.embed_last.*'convolution'"),
    ({'ratios': (8, 4, 2)}, 'model.ratios.*model.layers'),
    ({'ratios': (8, 4, 2, 2)}, r'model.ratios \(8, 4, 2, 2\)'),
    ({'ratios': (8, 0, 2, 1)}, r'model.ratios \(8, 0, 2, 1\)'),
    ({'kernels': (7, 5)}, r'model.kernels \(7, 5\).*pool2'),
    ({'kernels': (7, 4, 3)}, r'model.kernels \(7, 4, 3\).*odd'),
  ],
)
def test_settings_that_do_not_fit(settings, message):
  with pytest.raises(ConfigError, match=message):
    models.build({'name': 'dual_afr', **settings}, V)
