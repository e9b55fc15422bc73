import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import common
from tests.cases import CASES
from tests.made_up import L, S, Setup, finite, rows
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import bind
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.cross_entropy import caption_loss, token_log_probs
from vidcap_jax.objectives.multi_sample import bound, multi_sample_loss, score_term, signals

pytestmark = pytest.mark.usefixtures('strict_dtypes')


@pytest.fixture(scope='module')
def hard():
  return Setup(next(case for case in CASES if case.name == 'dual_afr-hard'))


def test_the_gradient_is_that_of_the_expected_bound():
  """Equations 12 to 14 over all K draws of a two-step choice among three, exactly."""
  K, rng = 3, np.random.default_rng(0)
  paths = np.array(list(itertools.product(range(3), repeat=2)))  # (9, 2) what may be drawn
  tuples = np.array(list(itertools.product(range(9), repeat=K)))  # (729, K)
  logits = jnp.asarray(rng.normal(size=(2, 3)))
  likelihood = jnp.asarray(rng.normal(size=9) * 2 - 5)  # log p(Y | path), parameters too

  def log_probs(params):
    logits, likelihood = params
    each = jax.nn.log_softmax(logits)[jnp.arange(2)[None], paths].sum(axis=-1)  # (9,)
    return each[tuples], likelihood[tuples]  # (729, K)

  def expected(params):
    log_p_m, log_p = log_probs(params)
    return (jnp.exp(log_p_m.sum(axis=-1)) * bound(log_p)).sum()

  def estimated(params):
    log_p_m, log_p = log_probs(params)
    chance = jax.lax.stop_gradient(jnp.exp(log_p_m.sum(axis=-1)))
    return (chance * (bound(log_p) + score_term(log_p, log_p_m))).sum()

  with jax.numpy_dtype_promotion('standard'):
    found, exact = (jax.grad(f)((logits, likelihood)) for f in (estimated, expected))
  for a, b in zip(found, exact):
    np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
def test_signals_far_from_zero_and_of_one_large_draw():
  """float32 keeps differences at -900; a draw far below or above the others gives no NaN."""
  near = np.array([-0.5, 0.25, 1.0, -2.0], np.float32)
  np.testing.assert_array_equal(signals(jnp.asarray(near - 900)), signals(jnp.asarray(near - 4)))
  for log_p in ([-900.0, -1.0, -950.0], [-1.0, -900.0, -1.0], [-2000.0, -2000.0, -1e-3]):
    values, grad = jax.value_and_grad(lambda x: signals(x).sum() + bound(x))(jnp.array(log_p))
    assert np.isfinite(values)
    assert finite(grad)


def test_by_hand(hard):
  """The loss is the bound of what K runs by the same noise say, padding left out."""
  K = 2

  @jax.jit
  def run(params, inputs, targets, key):
    captioner = bind(hard.module, params)
    total, surrogate = multi_sample_loss(captioner, inputs, targets, key, K)
    repeated = jnp.repeat(targets, K, axis=1)
    noise = captioner.noise(key, inputs, S * K, L)
    memory = captioner.encode(inputs, noise.encoder, train=True)
    unrolled = teacher_forcing(captioner, memory, repeated, noise.steps, train=True)
    logits = jnp.moveaxis(captioner.logits(unrolled.hidden), 0, 2)
    log_prob = token_log_probs(logits, repeated)
    return total, surrogate, log_prob, jnp.moveaxis(unrolled.draw_log_prob, 0, 2)

  args = (hard.params, hard.inputs, hard.targets, jax.random.key(0))
  total, surrogate, log_prob, draws = (np.asarray(x, np.float64) for x in run(*args))
  mask = np.repeat(hard.targets, K, axis=1) != PAD
  log_p, log_p_m = (np.where(mask, x, 0).sum(-1).reshape(-1, S, K) for x in (log_prob, draws))
  expected = -np.log(np.exp(log_p).mean(-1)).sum()
  np.testing.assert_allclose(total, expected, rtol=1e-5)
  score = (np.asarray(signals(jnp.asarray(log_p, jnp.float32))) * log_p_m).sum()
  np.testing.assert_allclose(surrogate, expected - score, rtol=1e-4)
  assert len(np.unique(log_p[0, 0])) == K  # the runs differ


def objective(hard, **settings):
  config = common.base()
  config.objective = {'name': 'multi_sample', 'draws': 3}
  config.update_from_flattened_dict(settings)
  return make_objective(config, hard.module, None)


def test_objective_reaches_every_parameter(hard):
  """The attention too, which draws keep from cross entropy."""
  made = objective(hard)
  assert made.initial_state(8, 2) == {}

  @jax.jit
  @jax.value_and_grad
  def grads(params, targets):
    batch = {'captions': targets}
    loss, (report, _) = made.loss(params, batch, hard.inputs, jax.random.key(0), 0.0, {})
    assert report['loss'].shape == loss.shape == ()
    return loss

  value, grad = grads(hard.params, hard.targets)
  assert np.isfinite(value)
  assert finite(grad)
  assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(grad))
  value, grad = grads(hard.params, np.zeros_like(hard.targets))
  assert value == 0
  assert all((g == 0).all() for g in jax.tree.leaves(grad))


def test_models_and_settings_that_do_not_fit(hard):
  fc7 = Setup(next(case for case in CASES if case.name == 'dual_afr-lstm'))
  inputs, targets = rows(fc7.inputs, slice(1)), fc7.targets[:1]
  with pytest.raises(ConfigError, match='a model that draws'):
    jax.eval_shape(
      lambda params: multi_sample_loss(
        bind(fc7.module, params), inputs, targets, jax.random.key(0), 2
      ),
      fc7.params,
    )
  for sampling_ratio in (None, 0.5):
    with pytest.raises(ConfigError, match="set objective.name to 'multi_sample'"):
      jax.eval_shape(
        lambda params: caption_loss(
          bind(hard.module, params),
          rows(hard.inputs, slice(1)),
          hard.targets[:1],
          jax.random.key(0),
          sampling_ratio=sampling_ratio,  # noqa: B023
        ),
        hard.params,
      )
  with pytest.raises(ConfigError, match='at least 2'):
    objective(hard, **{'objective.draws': 1})
  with pytest.raises(ConfigError, match='label_smoothing must be 0'):
    objective(hard, **{'train.label_smoothing': 0.1})
