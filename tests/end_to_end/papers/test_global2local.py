"""Global2Local, equations 1-9, through the modules that training runs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.captioner import Inputs, bind, init_params
from vidcap_jax.models.global2local import (
  Carry,
  Global2Local,
  Global2LocalConfig,
  select,
  sparse_weights,
)
from vidcap_jax.models.layers import gumbel

pytestmark = pytest.mark.usefixtures('strict_dtypes')
ACTIVATIONS = ('relu', 'sigmoid', 'tanh')
NOISES = ('noise', 'zero_noise')


def load_params(d, params, dtype):
  """Replaces parameters by the oracle's; those that it lacks (words, GRUs, output) stay."""

  def attention(name):
    return {
      'key': {'kernel': d[f'{name}/W_v']},
      'query': {'kernel': d[f'{name}/W_h']},
      'bias': d[f'{name}/b'],
      'score': d[f'{name}/w'],
    }

  oracle_params = {
    'frame_embed': {'kernel': d['proj_2d/kernel'], 'bias': d['proj_2d/bias']},
    'clip_embed': {'kernel': d['proj_3d/kernel'], 'bias': d['proj_3d/bias']},
    'region_embed': {'kernel': d['proj_obj/kernel'], 'bias': d['proj_obj/bias']},
    'align': {'kernel': d['phi/kernel']},
    'align_bias': d['phi/bias'],
    'attend_frames': attention('att_2d'),
    'attend_clips': attention('att_3d'),
    'attend_aligned': attention('att_al'),
    'attend_regions': attention('att_local'),
  }
  whole = {**params, **jax.tree.map(lambda x: jnp.asarray(x, dtype), oracle_params)}
  assert jax.tree.map(jnp.shape, whole) == jax.tree.map(jnp.shape, params)
  return whole


class Setup:
  """The captioner with the oracle's weights, its inputs and a state whose output is h_prev."""

  def __init__(self, d, activation, dtype, tau=1e-4):
    self.d = d
    K, B, _ = d['in/gumbel'].shape
    self.config = Global2LocalConfig(
      vocab_size=7,
      picks=K,
      tau=tau,
      activation=activation,
      hidden=d['in/h_prev'].shape[1],
      embed=3,
      project=d['proj_2d/kernel'].shape[1],
      project_regions=d['proj_obj/kernel'].shape[1],
      aligned=d['phi/bias'].size,
      attention=d['att_2d/b'].size,
      dropout=0.0,
      dtype=dtype,
      param_dtype=dtype,
    )
    self.module = Global2Local(self.config)
    names = {'image': 'in/f', 'motion': 'in/v', 'objects': 'in/regions'}
    masks = {'image': 'in/mask', 'motion': 'in/mask', 'objects': 'in/region_mask'}
    self.inputs = Inputs(
      features={name: jnp.asarray(d[key], dtype) for name, key in names.items()},
      masks={name: jnp.asarray(d[key]) for name, key in masks.items()},
    )
    shapes = jax.eval_shape(
      functools.partial(init_params, self.module), jax.random.key(0), self.inputs
    )
    self.params = load_params(d, jax.tree.map(lambda x: jnp.full(x.shape, 0.1), shapes), dtype)
    self.h = jnp.asarray(d['in/h_prev'], dtype)[:, None]  # (B, 1, H)
    self.carry = Carry(jnp.zeros_like(self.h), self.h, jnp.zeros((B, 1), jnp.int32))
    gumbels = jnp.moveaxis(jnp.asarray(d['in/gumbel'], dtype), 0, 1)[:, None]  # (B, 1, K, T')
    self.noise = {'noise': {'gumbel': gumbels}, 'zero_noise': {'gumbel': jnp.zeros_like(gumbels)}}

  def step(self, params, noise):
    """Hidden state, attention and memory of one step."""
    captioner = bind(self.module, params)
    memory = captioner.encode(self.inputs, None, train=True)
    x = captioner.embed(jnp.ones((len(self.h), 1), jnp.int32), None)
    _, hidden, extras = captioner.step(self.carry, x, memory, noise, train=True)
    return hidden, extras.attention, memory

  @functools.cached_property
  def results(self):
    """By noise: attention, memory, and x_G and x_L, what the first GRU reads beside the word."""

    @jax.jit
    def run(params, noise):
      _, attention, memory = self.step(params, noise)

      def attend(module):
        parts, attention = module.attend_globally(self.h, memory)
        local = module.attend_locally(self.h, attention['temporal'], memory, noise['gumbel'])[0]
        return jnp.concatenate(parts, axis=-1), local

      return attention, memory, *self.module.apply({'params': params}, method=attend)

    return {name: run(self.params, noise) for name, noise in self.noise.items()}


@pytest.fixture(scope='module')
def setups():
  """What has been computed before."""
  return {}


@pytest.fixture(params=ACTIVATIONS)
def setup(request, oracle, precision, setups):
  """``setup(tau)`` for each activation."""

  def make(tau=1e-4):
    key = request.param, precision, tau
    if key not in setups:
      setups[key] = Setup(oracle(f'g2l_{request.param}_eq1_9'), *key)
    return setups[key]

  return make


def test_global_branch(setup, close):
  """Equations 1-4 and 8."""
  s = setup()
  d = s.d
  attention, memory, x_global, _ = s.results['zero_noise']
  mask, regions = d['in/mask'], d['in/region_mask']
  where = lambda m, x: np.where(m[..., None], x, np.zeros((), x.dtype))  # noqa: E731
  close(memory.frames.values, where(mask, d['out/f_prime']))
  close(memory.clips.values, where(mask, d['out/v_prime']))
  close(memory.regions.values, where(regions, d['out/r_prime']))
  np.testing.assert_array_equal(memory.choosable, d['in/sparse_mask'])
  for name, oracle_name in {
    'temporal_2d': 'a_2d',
    'temporal_3d': 'a_3d',
    'temporal': 'a_al',
  }.items():
    close(attention[name][:, 0], d[f'out/{oracle_name}'])
  close(sparse_weights(attention['temporal'], 3, False)[:, 0], d['out/a_sparse'])
  close(x_global[:, 0], d['out/x_global'])


@pytest.mark.parametrize('noise', NOISES)
def test_local_branch(setup, close, noise):
  """Equations 5-9 at the paper's temperature; the picked frames are exact."""
  s = setup()
  d, at = s.d, f'out/tau_0.0001/{noise}'
  attention, memory, _, x_local = s.results[noise]
  picks = attention['keyframe'][:, 0]
  np.testing.assert_array_equal(picks.argmax(-1), d[f'{at}/pi'].argmax(-1))
  close(picks, d[f'{at}/pi'])
  assert (np.asarray(picks)[~np.broadcast_to(d['in/sparse_mask'][:, None], picks.shape)] == 0).all()
  close(select(picks[:, None], memory.regions.values)[:, 0], d[f'{at}/selected'])
  weights = attention['spatial'][:, 0]
  assert (np.asarray(weights)[~d[f'{at}/selected_region_mask']] == 0).all()
  close(weights, d[f'{at}/a_local'])
  close(x_local[:, 0], d[f'{at}/x_local'])


@pytest.mark.parametrize('noise', NOISES)
def test_soft_picks(setup, close, noise):
  s = setup(0.5)
  d, at = s.d, f'out/tau_0.5/{noise}'
  attention, memory, _, _ = s.results[noise]
  picks = attention['keyframe'][:, 0]
  close(picks, d[f'{at}/pi'])
  close(select(picks[:, None], memory.regions.values)[:, 0], d[f'{at}/selected'])


@pytest.mark.parametrize('tau', ['0.0001', '0.1', '1.0'])
@pytest.mark.parametrize('noise', NOISES)
def test_sampler_alone(oracle, precision, close, tau, noise):
  """Ties, even weights and weights of zero; at the paper's temperature exact in its picks."""
  d = oracle('g2l_gumbel_topk_eq5_6')
  gumbels = jnp.moveaxis(jnp.asarray(d['in/gumbel'], precision), 0, 1)  # (B, K, N)
  weights = jnp.asarray(d['in/pi0'], precision)
  picks = gumbel.top_k(
    'keyframe',
    weights,
    jnp.ones(weights.shape, bool),
    gumbels if noise == 'noise' else None,
    picks=gumbels.shape[1],
    tau=float(tau),
  )
  expected = d[f'out/tau_{tau}/{noise}']
  compared = np.ones(expected.shape[:2], bool)
  if tau != '0.0001':
    # A soft pick may leave so little of a weight that it is a rounding error, and yet far more than
    # the clamp: what follows it has no exact value. (At tau 1 without noise a pick is the weights.)
    left = d['in/pi0'][:, None] - np.cumsum(expected, axis=1)
    least = 10 * np.finfo(precision).eps / (2e-5 if precision == np.float32 else 1e-9)
    clear = (np.abs(left) >= least * d['in/pi0'][:, None]).all(axis=-1)  # (B, K)
    compared[:, 1:] = np.cumprod(clear, axis=1)[:, :-1]
  assert np.isfinite(picks).all()
  close(np.where(compared[..., None], picks, 0), np.where(compared[..., None], expected, 0))
  sharp = expected.max(axis=-1) > 0.999
  assert noise == 'zero_noise' or tau != '0.0001' or sharp.all()
  same = picks.argmax(axis=-1) == expected.argmax(axis=-1)
  assert same[compared & sharp].all()


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize('activation', ACTIVATIONS)
def test_finite_at_the_papers_temperature(oracle, activation, dtype):
  """Value and gradient, with respect to every weight."""
  s = Setup(oracle(f'g2l_{activation}_eq1_9'), activation, dtype)

  def loss(params, noise):
    hidden, attention, _ = s.step(params, noise)
    return jnp.square(hidden.astype(jnp.float32)).sum(), attention

  run = jax.jit(jax.value_and_grad(loss, has_aux=True))
  for name, noise in s.noise.items():
    (value, attention), grads = run(s.params, noise)
    assert np.isfinite(value)
    assert all(np.isfinite(np.asarray(x, np.float32)).all() for x in jax.tree.leaves(grads))
    assert all(x.dtype == jnp.float32 and np.isfinite(x).all() for x in attention.values())
    expected = s.d[f'out/tau_0.0001/{name}/pi']
    np.testing.assert_array_equal(attention['keyframe'][:, 0].argmax(-1), expected.argmax(-1))


@pytest.mark.parametrize('dtype', [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize('noise', NOISES)
def test_the_sampler_alone_is_finite(oracle, noise, dtype):
  """Ties and weights of zero have finite gradients too."""
  d = oracle('g2l_gumbel_topk_eq5_6')
  gumbels = jnp.moveaxis(jnp.asarray(d['in/gumbel'], jnp.float32), 0, 1)
  weights = jnp.asarray(d['in/pi0'], dtype)

  def loss(weights):
    picks = gumbel.top_k(
      'keyframe',
      weights,
      jnp.ones(weights.shape, bool),
      gumbels if noise == 'noise' else None,
      picks=3,
      tau=1e-4,
    )
    return (picks * jnp.arange(8, dtype=jnp.float32)[None, None]).sum(), picks

  (_, picks), grads = jax.value_and_grad(loss, has_aux=True)(weights)
  assert np.isfinite(picks).all()
  assert np.isfinite(np.asarray(grads, np.float32)).all()
  np.testing.assert_allclose(picks.sum(-1), 1, rtol=1e-5)
