"""STaTS, equations 1-3 and 6-12, and its share of given words in training, through the modules that
training runs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.models.captioner import Inputs
from vidcap_jax.models.layers.ranked import order_violations, rank_loss
from vidcap_jax.models.layers.stats_branches import cell_means, mix_frames
from vidcap_jax.models.stats import Carry, Stats, StatsConfig
from vidcap_jax.objectives.cross_entropy import ScheduledSampling, own_word_ratio

V, E = 6, 5


def load_branches(d):
  """The oracle's weights under the names of our parameters; features are taken as they are."""
  P = d['in/x'].shape[-1]

  def attention(name):
    kernel, bias = d[f'{name}/W_x'], d[f'{name}/b']
    query = {'kernel': d[f'{name}/W_h']}
    return {'key': {'kernel': kernel, 'bias': bias}, 'query': query, 'score': d[f'{name}/w']}

  joined = lambda name: np.concatenate([d[f'ranked_lstm/{name}'.format(g)] for g in 'ifgo'], -1)  # noqa: E731
  return {
    'features': {'kernel': np.eye(P), 'bias': np.zeros(P)},
    **{name: attention(name) for name in ('st_spatial', 'ts_temporal', 'ts_spatial')},
    'pool': {'input': joined('i{}'), 'state': joined('h{}'), 'bias': joined('h{}_bias')},
    'st_branch': {'kernel': d['combine/W_ST']},
    'ts_branch': {'kernel': d['combine/W_TS']},
    'state_branch': {'kernel': d['combine/W_h']},
    'st_score': d['combine/w_ST'],
    'ts_score': d['combine/w_TS'],
  }


class Setup:
  """STaTS with the oracle's weights, its video in memory and its query."""

  def __init__(self, d, dtype, temperature=1.0, **changes):
    P, H = d['in/x'].shape[-1], d['in/h_prev'].shape[-1]
    config = StatsConfig(
      vocab_size=V,
      **{'grid_streams': ('x',), 'pooling': 'ranked', 'rank_weight': 0.25, **changes},
      hidden=H,
      embed=E,
      project=P,
      attention=d['combine/w_ST'].size,
      temperature=(temperature, temperature),
      dropout=0.0,
      dtype=dtype,
      param_dtype=dtype,
    )
    # The decoder's own weights matter to none of the equations; nothing is recalled.
    params = {
      'branches_x': load_branches(d),
      'words': {'embedding': np.ones((V, E))},
      'recall_match': {'kernel': np.ones((E, E))},
      'recall': {'kernel': np.zeros((E, H))},
      'lstm': {'kernel': np.ones((E + P + H, 4 * H)), 'bias': np.zeros(4 * H)},
    }
    self.params = jax.tree.map(lambda x: jnp.asarray(x, dtype), params)
    self.module = Stats(config)
    self.mask = np.broadcast_to(d['in/frame_mask'][..., None], d['in/x'].shape[:-1])
    inputs = Inputs({'x': jnp.asarray(d['in/x'], dtype)}, {'x': jnp.asarray(self.mask)})
    self.memory = self.apply(lambda m: m.encode(inputs))
    self.view = self.memory.views['x']
    self.query = jnp.asarray(d['in/h_prev'], dtype)[:, None]  # (B, 1, H)

  def apply(self, call):
    """``call(module)``, compiled."""
    return jax.jit(lambda params: self.module.apply({'params': params}, method=call))(self.params)

  def branches(self, method, *args, **train):
    """A method of the branches on the video."""
    return self.apply(lambda m: getattr(m.branches['x'], method)(*args, **train))


def frames(x, mask):
  """x (B, T or T - 1, …) where a frame (and the one before it) is valid, else 0."""
  valid = mask if x.shape[1] == mask.shape[1] else mask[:, 1:]
  return np.where(valid.reshape(*valid.shape, *(1,) * (x.ndim - 2)), x, 0)


def test_spatio_temporal_branch(oracle, precision, close, strict_dtypes):
  """Equation 3 with one weight for a cell in all frames, and equation 8."""
  d = oracle('stats_eq1_12')
  setup = Setup(d, precision)
  mask = d['in/frame_mask']
  close(cell_means(setup.view.values, jnp.asarray(setup.mask)), d['out/st/x_tilde'])
  attended, weights = setup.branches('attended_frames', setup.query, setup.view)
  close(weights[:, 0], d['out/st/e_spatial'])
  close(frames(np.asarray(attended[:, 0]), mask), frames(d['out/st/x_hat'], mask))
  x, _, attention = setup.branches('spatio_temporal', setup.query, setup.view)
  close(x[:, 0], d['out/st/x_ST'])
  close(attention['st_spatial'][:, 0], d['out/st/e_spatial'])


@pytest.mark.parametrize('margin', [0.5, 1.0])
def test_rank_loss(oracle, precision, close, strict_dtypes, margin):
  """Equations 6-7, and the loss's gradient to the summary with the frames held fixed."""
  d = oracle('stats_eq1_12')
  setup = Setup(d, precision, rank_margin=margin)
  expected = {name: d[f'out/ranked/beta_{margin}/{name}'] for name in ('zeta', 'loss_per_video')}
  mask = d['in/frame_mask']
  x, loss, _ = setup.branches('spatio_temporal', setup.query, setup.view)
  close(loss[:, 0], expected['loss_per_video'])
  attended, _ = setup.branches('attended_frames', setup.query, setup.view)
  zeta = np.asarray(order_violations(x, attended, margin))[:, 0]
  close(frames(zeta, mask), frames(expected['zeta'], mask))
  grad = jax.grad(lambda x: rank_loss(x, attended, jnp.asarray(mask), margin).sum())(x)
  close(grad[:, 0], d[f'out/ranked/beta_{margin}/dloss_dxST_direct'])


@pytest.mark.parametrize('temperature', [1.0, 0.1, 0.01])
def test_temporo_spatial_branch(oracle, precision, close, strict_dtypes, temperature):
  """Equations 9-11 by a softmax over frames at a low temperature."""
  d = oracle('stats_eq1_12')
  expected = {n: d[f'out/ts/temp_{temperature}/{n}'] for n in ('e_time', 'x_tau', 'e_TS', 'x_TS')}
  setup = Setup(d, precision, temperature)
  args = (setup.query, setup.view, setup.memory.temperature)
  chosen = setup.branches('choose_frame', *args, train=True)
  close(chosen[:, 0], expected['e_time'])
  close(mix_frames(chosen, setup.view.values)[:, 0], expected['x_tau'])
  x, attention = setup.branches('temporo_spatial', *args, train=True)
  close(x[:, 0], expected['x_TS'])
  close(attention['ts_temporal'][:, 0], expected['e_time'])
  close(attention['ts_spatial'][:, 0], expected['e_TS'])


def test_scores_of_frames(oracle, precision, close, strict_dtypes):
  """Equation 2: differences of the log-weights at temperature 1 are those of the scores."""
  d = oracle('stats_eq1_12')
  setup = Setup(d, precision)
  chosen = setup.branches(
    'choose_frame', setup.query, setup.view, setup.memory.temperature, train=True
  )
  mask = d['in/frame_mask']
  log_weights = np.log(np.where(mask, chosen[:, 0], 1)).astype(precision)
  scores = d['out/ts/scores']
  close(frames(log_weights - log_weights[:, :1], mask), frames(scores - scores[:, :1], mask))


@pytest.mark.parametrize('reading', ['hard at test', 'regions'])
def test_hard_choice(oracle, precision, close, strict_dtypes, reading):
  d = oracle('stats_eq1_12')
  changes = {
    'hard at test': {'hard_at_test': True},
    'regions': {'grid_streams': (), 'region_streams': ('x',)},
  }
  setup = Setup(d, precision, **changes[reading])
  args = (setup.query, setup.view, setup.memory.temperature)
  x, attention = setup.branches('temporo_spatial', *args, train=reading == 'regions')
  chosen = np.asarray(attention['ts_temporal'][:, 0])
  np.testing.assert_array_equal(chosen, np.eye(chosen.shape[1])[d['out/ts/hard/tau']])
  close(attention['ts_spatial'][:, 0], d['out/ts/hard/e_TS'])
  close(x[:, 0], d['out/ts/hard/x_TS'])


def test_combination_of_the_branches(oracle, precision, close, strict_dtypes):
  """Equation 12, from the branches' own results."""
  d = oracle('stats_eq1_12')
  setup = Setup(d, precision, temperature=0.1)
  x, _, attention = setup.branches(
    '__call__', setup.query, setup.view, setup.memory.temperature, train=True
  )
  close(x[:, 0], d['out/combine/x'])
  close(attention['branch'][:, 0], d['out/combine/weights'])
  beta, weights = d['out/combine/beta'], np.asarray(attention['branch'][:, 0])
  close(np.log(weights[:, 1] / weights[:, 0]), beta[:, 1] - beta[:, 0])


def test_a_whole_step(oracle, precision, close, strict_dtypes):
  """The step queries with its LSTM's state and gives the rank loss with its weight."""
  d = oracle('stats_eq1_12')
  setup = Setup(d, precision, temperature=0.1)
  zeros = jnp.zeros_like(setup.query)
  words = jnp.zeros((*zeros.shape[:2], 4, E), precision)
  carry = Carry(setup.query, zeros, words, jnp.zeros(zeros.shape[:2], jnp.int32))
  x = jnp.ones((*zeros.shape[:2], E), precision)
  _, _, extras = setup.apply(lambda m: m.step(carry, x, setup.memory, train=True))
  close(extras.aux[:, 0], 0.25 * d['out/ranked/beta_1.0/loss_per_video'])
  names = {
    'st_spatial': 'st/e_spatial',
    'ts_temporal': 'ts/temp_0.1/e_time',
    'ts_spatial': 'ts/temp_0.1/e_TS',
    'branch': 'combine/weights',
  }
  for name, oracle_name in names.items():
    close(extras.attention[name][:, 0], d[f'out/{oracle_name}'])


def test_training_ratio(oracle, precision, close, strict_dtypes):
  d = oracle('stats_eq1_12')
  settings = ScheduledSampling('inverse_sigmoid', eta=24.0)
  epochs = jnp.asarray(d['out/teacher_forcing/epoch'], precision)
  # Anywhere within an epoch the ratio is that of its start.
  for fraction in (0.0, 0.5):
    found = own_word_ratio(settings, epochs + jnp.asarray(fraction, precision))
    close(1 - np.asarray(found), d['out/teacher_forcing/ratio'])
