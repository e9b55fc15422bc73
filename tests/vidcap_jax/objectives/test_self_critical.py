"""Reinforcement: the loss against the oracle, and what must hold whatever the rewards are."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import common
from tests.cases import V
from tests.made_up import L, Setup, close, finite
from tests.vidcap_jax.objectives.setups import setup
from vidcap_jax.data.vocabulary import EOS, PAD, SPECIAL, Vocabulary
from vidcap_jax.errors import ConfigError
from vidcap_jax.objectives import make_objective, self_critical, self_critical_settings

pytestmark = pytest.mark.usefixtures('strict_dtypes')
K = 3
VOCABULARY = Vocabulary((*SPECIAL, *(f'w{i}' for i in range(V - len(SPECIAL)))), 'whitespace')


def config(**settings):
  c = common.base()
  c.objective = common.self_critical()
  c.data.length_buckets = ()
  c.train.init_from = 'stage:xe'
  c.update_from_flattened_dict(settings)
  return c


def run(model, settings, params=None, video_index=None):
  """(value, report, state, gradients) of one batch of made-up videos."""
  objective = make_objective(settings, model.module, None)
  captions = [[f'w{i} w{i + 1} w0', f'w{i} w1'] for i in range(8)]
  tables = objective.tables(captions, VOCABULARY)
  index = jnp.arange(8) if video_index is None else jnp.asarray(video_index)
  batch = {'captions': jnp.asarray(model.targets), 'video_index': index, 'tables': tables}

  @jax.jit
  def grads(params, inputs, batch):
    def loss(params):
      return objective.loss(
        params, batch, inputs, jax.random.key(0), 0.0, objective.initial_state(8, 2)
      )

    return jax.value_and_grad(loss, has_aux=True)(params)

  params = model.params if params is None else params
  (value, (report, state)), grads = grads(params, model.inputs, batch)
  return float(value), {k: float(v) for k, v in report.items()}, state, grads


@pytest.mark.parametrize('baseline', self_critical_settings.BASELINES)
def test_objective(baseline):
  model = setup('temporal')
  value, report, state, grads = run(
    model, config(**{'objective.baseline': baseline, 'objective.samples': K})
  )
  assert finite(grads)
  assert report['loss'] == value != 0
  parts = report['reward_cider'] + 0.5 * report['reward_bleu4']
  assert report['reward'] == pytest.approx(parts, rel=1e-5)
  if baseline == 'others':  # means over the same samples
    assert report['baseline'] == pytest.approx(report['reward'], rel=1e-5)
  elif baseline == 'none':
    assert report['baseline'] == 0
  assert 0 < report['words'] <= L
  assert 0 < report['distinct'] <= 1
  assert 0 <= report['ended'] <= 1
  assert report['entropy'] > 0
  assert int(state['collapsed']) == (report['reward'] < 0.01)


def test_every_model_learns_from_rewards(model):
  value, report, _, grads = run(model, config())
  assert finite(grads)
  assert report['loss'] == value


def test_equal_rewards_give_exactly_no_loss():
  """Every sample of every video earns nothing, as does the greedy caption."""
  model = setup('temporal')
  settings = config(**{'objective.samples': K, 'objective.rewards.bleu4': 0.0})
  settings.objective.count_eos = False
  objective = make_objective(settings, model.module, None)
  tables = objective.tables([['other words only']] * 8, VOCABULARY)
  batch = {'captions': model.targets, 'video_index': jnp.arange(8), 'tables': tables}

  @jax.jit
  def grads(params, inputs, batch):
    def loss(params):
      state = objective.initial_state(8, 1)
      return objective.loss(params, batch, inputs, jax.random.key(0), 0.0, state)

    return jax.value_and_grad(loss, has_aux=True)(params)

  (value, (report, _)), made = grads(model.params, model.inputs, batch)
  assert value == 0
  assert report['reward'] == 0
  assert all((np.asarray(x) == 0).all() for x in jax.tree.leaves(made))


def test_padding_videos_change_nothing():
  model = setup('temporal')
  all_of_them = run(model, config())
  fewer = run(model, config(), video_index=[0, 1, 2, 3, -1, -1, -1, -1])
  assert fewer[0] != all_of_them[0]
  assert fewer[1]['distinct'] <= 1
  half = jax.tree.map(lambda x: np.concatenate([x[:4], x[:4]]), model.inputs)
  other = Setup.__new__(Setup)
  other.__dict__ = model.__dict__ | {'inputs': half}
  again = run(other, config(), video_index=[0, 1, 2, 3, -1, -1, -1, -1])
  assert again[0] == pytest.approx(fewer[0], rel=1e-5)
  close(again[3], fewer[3])


def test_words_after_the_end_carry_no_gradient():
  log_prob = jnp.ones((2, 4))
  tokens = jnp.array([[5, EOS, PAD, PAD], [5, 5, 5, 5]], jnp.int32)
  grads = jax.grad(self_critical.policy_loss)(log_prob, tokens, jnp.array([2.0, -1.0]))
  assert grads.tolist() == [[-2, -2, 0, 0], [1, 1, 1, 1]]


def test_the_mean_of_the_others():
  reward = jnp.array([[1.0, 2.0, 6.0], [3.0, 3.0, 3.0]])
  assert self_critical.mean_of_others(reward).tolist() == [[4, 3.5, 1.5], [3, 3, 3]]


def test_cross_entropy_beside_it():
  model = setup('temporal')
  plain, mixed = run(model, config()), run(model, config(**{'objective.cross_entropy': 0.5}))
  assert mixed[0] == pytest.approx(plain[0] + 0.5 * mixed[1]['cross_entropy'], rel=1e-4)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'objective.baseline': 'mean'}, "unknown objective.baseline 'mean'"),
    ({'objective.gradient': 'scan'}, "unknown objective.gradient 'scan'"),
    ({'objective.encoder': 'frozen'}, "unknown objective.encoder 'frozen'"),
    ({'objective.encoder': 'fixed'}, "'fixed'.*TemporalSpatial.*encoder_params"),
    ({'objective.baseline': 'others'}, 'at least 2'),
    ({'objective.samples': 0}, 'at least 1'),
    ({'objective.collapse.steps': 0}, r'collapse.steps=0: must be at least 1'),
    ({'objective.temperature': 0.0}, r'temperature=0.0: above 0'),
    ({'objective.temperature': math.nan}, r'temperature=nan: above 0'),
    ({'objective.cross_entropy': -1.0}, r'cross_entropy=-1.0: 0 or more'),
    ({'objective.cross_entropy': math.inf}, r'cross_entropy=inf: 0 or more'),
    ({'train.init_from': ''}, 'starts from a trained model'),
    ({'data.length_buckets': (9,)}, r'length_buckets must be \(\)'),
    ({'objective.micro_batches': 2}, "needs objective.gradient='replay'"),
    (
      {'objective.micro_batches': 5, 'objective.gradient': 'replay'},
      'must divide train.batch_size=64, got 5',
    ),
    ({'objective.rewards.cider': 0.0, 'objective.rewards.bleu4': 0.0}, 'all zero'),
  ],
)
def test_settings_that_make_no_sense(change, message):
  with pytest.raises(ConfigError, match=message):
    make_objective(config(**change), setup('temporal').module, None)
  if 'train.init_from' in change:
    made = config(**change, **{'objective.from_scratch': True})
    make_objective(made, setup('temporal').module, None)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'sampels': 3}, "config.objective.sampels: objective 'self_critical'.*objective.samples"),
    ({'collapse': {'step': 3}}, r'config.objective.collapse.step:.*collapse.steps'),
    ({'rewards': {'cidre': 1.0}}, 'objective.rewards.*cidre.*cider'),
  ],
)
def test_unknown_settings_are_refused(change, message):
  c = config()
  c.objective = {'name': 'self_critical', **change}
  with pytest.raises(ConfigError, match=message):
    make_objective(c, setup('temporal').module, None)


def test_the_encoder_is_fixed_only_where_it_is_asked_for():
  """A checkpoint or config of before the setting, which lacks it, trains the whole model."""
  module = setup('refocus').module
  fixed = make_objective(config(**{'objective.encoder': 'fixed'}), module, None)
  assert fixed.fixed_params == module.encoder_params
  older = config()
  del older.objective['encoder']
  for settings in (config(), older):
    assert make_objective(settings, module, None).fixed_params == ()


def test_rewards_that_can_only_be_0_are_named():
  objective = make_objective(config(), setup('temporal').module, None)
  one, two = [['w1 w2 w3 w4', 'w5']], [['w1 w2 w3'], ['w5']]
  (note,) = objective.notes(one, VOCABULARY)
  assert 'objective.rewards.cider' in note
  assert objective.notes(two, VOCABULARY) == []  # with EOS, one reference has four words
  without_eos = make_objective(
    config(**{'objective.count_eos': False}), setup('temporal').module, None
  )
  (note,) = without_eos.notes(two, VOCABULARY)
  assert 'objective.rewards.bleu4' in note
