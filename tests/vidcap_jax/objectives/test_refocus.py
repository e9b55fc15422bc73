import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.cases import CASES, V
from tests.made_up import Setup, dirty, finite
from tests.scans import array_sizes
from vidcap_jax import models
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import bind
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.cross_entropy import caption_loss
from vidcap_jax.objectives.refocus import (
  REWARD_LOSSES,
  above_batch_mean,
  key_frame_log_probs,
  passes_loss,
  rewards,
  update_rewards,
)

pytestmark = pytest.mark.usefixtures('strict_dtypes')

# ---------------------------------------------------------------- log-probabilities of key frames


@jax.jit
@jax.value_and_grad
def pushed(scores, mask, key_frame, change):
  """Equation 21 of (B, T) scores, summed over videos."""
  chosen, others = key_frame_log_probs(scores, mask, key_frame)
  return REWARD_LOSSES['eq21'](change, chosen, others).sum()


def test_log_probs_are_those_of_the_softmax():
  scores = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
  mask = np.arange(5)[None] < np.array([[5], [3], [2]])
  key_frame = np.array([4, 0, 1], np.int32)
  chosen, others = key_frame_log_probs(
    jnp.asarray(scores), jnp.asarray(mask), jnp.asarray(key_frame)
  )
  odds = np.where(mask, np.exp(scores), 0)
  alpha = (odds / odds.sum(axis=1, keepdims=True))[np.arange(3), key_frame]
  np.testing.assert_allclose(chosen, np.log(alpha), rtol=1e-5)
  np.testing.assert_allclose(others, np.log(1 - alpha), rtol=1e-5)


@pytest.mark.parametrize('gap', [30.0, 100.0, 1e4])
def test_alpha_near_one(gap):
  """1 - alpha is 0 in float32, its logarithm is -gap: finite, with a gradient that moves alpha."""
  scores = jnp.array([[0.0, gap, 0.0]])
  mask, key_frame = jnp.ones((1, 3), bool), jnp.array([1], jnp.int32)
  _, others = key_frame_log_probs(scores, mask, key_frame)
  np.testing.assert_allclose(others, [np.log(2) - gap], rtol=1e-6)
  value, grads = pushed(scores, mask, key_frame, jnp.array([-2.0]))
  np.testing.assert_allclose(value, 2 * (gap - np.log(2)), rtol=1e-6)
  # Descent lowers the chosen frame's score and raises the others'.
  np.testing.assert_allclose(grads, [[-1.0, 2.0, -1.0]], atol=1e-5)
  value, grads = pushed(scores, mask, key_frame, jnp.array([2.0]))
  assert abs(value) < 1e-6
  assert finite(grads)


@pytest.mark.parametrize('frames', [0, 1])
@pytest.mark.parametrize('change', [-3.0, 0.0, 3.0])
def test_without_a_choice_there_is_no_loss(frames, change):
  scores = jnp.array([[2.0, -1.0, 5.0]])
  mask = jnp.arange(3)[None] < frames
  value, grads = pushed(scores, mask, jnp.array([0], jnp.int32), jnp.array([change]))
  assert value == 0
  np.testing.assert_allclose(grads, np.zeros((1, 3)), atol=1e-6)


def test_a_key_frame_that_is_not_valid_is_not_pushed():
  """Given from outside, it may lie behind the last frame."""
  scores, mask = jnp.array([[2.0, -1.0, 5.0]]), jnp.array([[True, True, False]])
  value, grads = pushed(scores, mask, jnp.array([2], jnp.int32), jnp.array([3.0]))
  assert value == 0
  assert finite(grads)


@pytest.mark.parametrize('name', REWARD_LOSSES)
@pytest.mark.parametrize('change', [-1.0, 1.0])
def test_which_way_alpha_is_pushed(name, change):
  """Up where the reward has risen, down where it has fallen, but by equation 21 as printed."""
  mask, key_frame = jnp.ones((1, 3), bool), jnp.array([1], jnp.int32)

  def loss(scores):
    chosen, others = key_frame_log_probs(scores, mask, key_frame)
    return REWARD_LOSSES[name](jnp.array([change]), chosen, others).sum()

  gradient = jax.grad(loss)(jnp.array([[0.3, 0.5, -0.2]]))[0, 1]
  expected = 1.0 if name == 'eq21_printed' else change
  assert np.sign(-gradient) == expected


# ---------------------------------------------------------------- the table of rewards


def test_rewards_are_kept_per_caption():
  table = jnp.full((4, 3), jnp.nan).at[2, 1].set(5.0)
  batch = {
    'video_index': jnp.array([2, 0, -1], jnp.int32),
    'caption_index': jnp.array([[1, 0], [2, -1], [-1, -1]], jnp.int32),
  }
  R = jnp.array([[7.0, 1.0], [2.0, 100.0], [100.0, 100.0]])
  change, renewed = jax.jit(update_rewards)(table, batch, R)
  np.testing.assert_array_equal(change, [[2, 0], [0, 0], [0, 0]])
  expected = np.full((4, 3), np.nan)
  expected[2, :2], expected[0, 2] = [1, 7], 2
  np.testing.assert_array_equal(renewed, expected)
  change, _ = update_rewards(renewed, batch, R - 1)
  np.testing.assert_array_equal(change, [[-1, -1], [-1, 0], [0, 0]])


def test_rewards_above_the_mean_of_the_batch():
  batch = {
    'video_index': jnp.array([2, 0, -1], jnp.int32),
    'caption_index': jnp.array([[1, 0], [2, -1], [-1, -1]], jnp.int32),
  }
  R = jnp.array([[7.0, 1.0], [4.0, 100.0], [100.0, 100.0]])
  np.testing.assert_allclose(above_batch_mean(batch, R), [[3, -3], [0, 0], [0, 0]])
  empty = {**batch, 'video_index': jnp.full((3,), -1, jnp.int32)}
  np.testing.assert_array_equal(above_batch_mean(empty, R), np.zeros((3, 2)))


# ---------------------------------------------------------------- the joint loss


@pytest.fixture(scope='module')
def setup():
  return Setup(next(case for case in CASES if case.name == 'refocus'))


def settings(**changes):
  c = ConfigDict(
    {
      'objective': {'name': 'refocus', 'beta': 0.03, 'reward_loss': 'eq21'},
      'train': {'label_smoothing': 0.0, 'scheduled_sampling': {'name': 'off'}},
    }
  )
  c.update_from_flattened_dict(changes)
  return c


@pytest.fixture(scope='module')
def quiet(setup):
  """The module without dropout, and a batch of its videos."""
  module = setup.module.clone(config=dataclasses.replace(setup.module.config, dropout=0.0))
  used = (setup.targets != PAD).any(axis=-1)
  B, S = used.shape
  batch = {
    'captions': setup.targets,
    'caption_index': np.where(used, np.arange(S), -1).astype(np.int32),
    'video_index': np.arange(B, dtype=np.int32),
  }
  return module, batch


@pytest.fixture(scope='module')
def step(setup, quiet):
  """(parameters, table, beta 0.03) -> value, gradients, report, table; compiled once."""
  module, batch = quiet
  objective = make_objective(settings(), module, None)

  @jax.jit
  def run(params, table):
    loss = lambda p: objective.loss(  # noqa: E731
      p, batch, setup.inputs, jax.random.key(0), jnp.float32(0), table
    )
    (value, (report, table)), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return value, grads, report, table

  return objective, run


@pytest.mark.slow
def test_the_first_epoch_only_fills_the_table(setup, quiet, step):
  module, batch = quiet
  objective, run = step
  table = objective.initial_state(8, 2)
  assert table.shape == (8, 2)
  assert np.isnan(table).all()
  value, grads, report, filled = run(setup.params, table)
  used = batch['caption_index'] >= 0
  np.testing.assert_array_equal(~np.isnan(filled), used)
  # Without a reward to compare with, nothing reaches the refocusing module.
  assert report['reward_loss'] == 0
  assert all((g == 0).all() for g in jax.tree.leaves(grads['refocus']))
  np.testing.assert_allclose(value, report['first_pass'] + report['second_pass'], rtol=1e-6)
  words = float((batch['captions'] != PAD).sum())
  np.testing.assert_allclose(np.nansum(filled), report['reward'] * words, rtol=1e-4)

  # The same parameters again: no reward has changed.
  again = run(setup.params, filled)
  np.testing.assert_allclose(again[0], value, rtol=1e-6)
  np.testing.assert_array_equal(again[3], filled)

  # Rewards have fallen everywhere: now something does.
  _, grads, report, _ = run(setup.params, filled + 2)
  assert report['reward_loss'] != 0
  assert finite(grads)
  assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(grads))


def test_the_mean_of_the_batch_as_baseline(setup, quiet, step):
  """Its loss needs no earlier epoch, is equation 21's, and a gain of all captions cancels."""
  module, batch = quiet
  objective = make_objective(settings(**{'objective.reward_baseline': 'batch_mean'}), module, None)
  assert objective.initial_state(8, 2) == {}

  @jax.jit
  def run(params):
    args = (params, batch, setup.inputs, jax.random.key(0), jnp.float32(0), {})
    (_, (report, state)), grads = jax.value_and_grad(objective.loss, has_aux=True)(*args)
    focus = bind(module, params).encode(setup.inputs, None, train=True).focus
    return report, state, grads, key_frame_log_probs(focus.scores, focus.mask, focus.key_frame)

  report, state, grads, (chosen, others) = run(setup.params)
  assert state == {}
  assert finite(grads)
  assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(grads['refocus']))
  R = np.asarray(step[1](setup.params, jnp.full((8, 2), jnp.nan))[3])[: len(chosen)]
  change = np.nan_to_num(R - np.nanmean(R))
  expected = REWARD_LOSSES['eq21'](change, chosen[:, None], others[:, None]).sum()
  words = float((batch['captions'] != PAD).sum())
  np.testing.assert_allclose(report['reward_loss'] * words, expected, rtol=1e-3)


def test_rewards_are_differences_of_caption_log_probs(setup, quiet, step):
  """The last pass's, as any unroller finds it, minus the first pass's."""
  module, batch = quiet
  _, run = step
  table = run(setup.params, jnp.full((8, 2), jnp.nan))[3]

  @jax.jit
  def log_probs(params):
    captioner = bind(module, params)
    key = jax.random.key(0)
    one = lambda v, s: setup.targets[v : v + 1, s : s + 1]  # noqa: E731
    rows = lambda v: jax.tree.map(lambda x: x[v : v + 1], setup.inputs)  # noqa: E731
    last = [-caption_loss(captioner, rows(v), one(v, 0), key)[0] for v in (0, 4)]
    totals = [passes_loss(captioner, rows(v), one(v, 0), key)[0] for v in (0, 4)]
    return jnp.stack(last), jnp.stack(totals)

  last, totals = log_probs(setup.params)
  np.testing.assert_allclose(-totals[:, 1], last, rtol=1e-5)
  np.testing.assert_allclose(table[np.array([0, 4]), 0], totals[:, 0] - totals[:, 1], atol=1e-5)
  assert np.abs(totals[:, 0] - totals[:, 1]).min() > 1e-4


def test_rewards_are_without_dropout(setup):
  captioner = bind(setup.module, setup.params)

  @jax.jit
  def run(key):
    totals, _, memory = passes_loss(captioner, setup.inputs, setup.targets, key)
    return totals, rewards(captioner, memory, setup.targets)

  (a, R), (b, same) = run(jax.random.key(0)), run(jax.random.key(1))
  assert np.abs(np.asarray(a) - b).min() > 1e-3
  np.testing.assert_array_equal(R, same)


def test_rewards_hold_the_logits_of_one_word(setup):
  """Of both passes; those of all words would be the largest array of a step."""
  B, S, L = setup.targets.shape

  def run(params):
    captioner = bind(setup.module, params)
    memory = captioner.encode(setup.inputs, None, train=True)
    return rewards(captioner, memory, setup.targets)

  sizes = array_sizes(jax.make_jaxpr(run)(setup.params).jaxpr, last=V)
  assert max(sizes) == 2 * B * S * V


def test_at_beta_zero_both_passes_learn_to_caption(setup, quiet):
  module, batch = quiet
  objective = make_objective(settings(**{'objective.beta': 0.0}), module, 7.0)
  assert objective.initial_state(8, 2) == {}
  own = settings(**{'train.label_smoothing': 0.1})
  own.objective.beta = 0.0
  own.train.scheduled_sampling = {
    'name': 'linear', 'start_epoch': 0.0, 'every_epochs': 1.0, 'increase': 0.5, 'most': 0.5
  }  # fmt: skip
  sampled = make_objective(own, module, None)

  @jax.jit
  def run(params):
    args = (params, batch, dirty(setup.inputs, np.nan), jax.random.key(0), jnp.float32(0), {})
    (value, (report, table)), grads = jax.value_and_grad(objective.loss, has_aux=True)(*args)
    return value, report, table, grads, sampled.loss(*args)[1][0]

  value, report, table, grads, other = run(setup.params)
  assert table == {}
  assert set(report) == {'loss', 'first_pass', 'second_pass'}
  words = float((batch['captions'] != PAD).sum())
  np.testing.assert_allclose(value * 7, report['loss'] * words, rtol=1e-5)  # a fixed divisor
  assert finite(grads)
  assert finite(other)
  assert abs(other['loss'] - report['loss']) > 1e-3


def test_models_without_a_second_pass_are_refused():
  for case in CASES:
    if case.name in ('kbigru', 'temporal'):
      with pytest.raises(ConfigError, match='compares two passes over a video, this model makes 1'):
        make_objective(settings(), models.build(case.settings, V), None)


def test_unknown_settings(setup):
  with pytest.raises(ConfigError, match="reward_loss 'eq20'; known: eq21, eq21_printed, eq19"):
    make_objective(settings(**{'objective.reward_loss': 'eq20'}), setup.module, None)
  with pytest.raises(ConfigError, match='reward_baseline.*mean.*last_epoch, batch_mean'):
    make_objective(settings(**{'objective.reward_baseline': 'mean'}), setup.module, None)
  with pytest.raises(ConfigError, match="objective.name 'reinforce'.*known: .*refocus"):
    make_objective(settings(**{'objective.name': 'reinforce'}), setup.module, None)
