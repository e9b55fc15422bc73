import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs import common
from tests.cases import CASES
from tests.made_up import L, S, Setup, finite, rows
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import bind
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.cross_entropy import (
  ScheduledSampling,
  caption_loss,
  own_word_ratio,
  read_sampling,
  summed,
)
from vidcap_jax.objectives.word_log_probs import (
  smoothed_log_probs,
  token_log_probs,
)

pytestmark = pytest.mark.usefixtures('strict_dtypes')

V = 11


@pytest.fixture(scope='module')
def logits():
  return (np.random.default_rng(0).normal(size=(3, 2, 4, V)) * 3).astype(np.float32)


@pytest.fixture(scope='module')
def targets():
  words = np.random.default_rng(1).integers(1, V, (3, 2, 4)).astype(np.int32)
  words[0, 0, 2:] = PAD
  words[2, 1] = PAD
  return words


def test_by_hand():
  logits = jnp.log(jnp.array([[0.1, 0.2, 0.3, 0.4], [0.25] * 4, [0.7, 0.1, 0.1, 0.1]])) + 5.0
  targets = jnp.array([3, 1, PAD])
  total, count = summed(smoothed_log_probs(logits, targets), targets)
  np.testing.assert_allclose([total, count], [-np.log(0.4) - np.log(0.25), 2], rtol=1e-5)
  total, count = summed(smoothed_log_probs(logits, targets, 0.2), targets)
  first = 0.8 * np.log(0.4) + 0.2 * np.log([0.1, 0.2, 0.3, 0.4]).mean()
  np.testing.assert_allclose([total, count], [-first - np.log(0.25), 2], rtol=1e-5)


@pytest.mark.parametrize('smoothing', [0.0, 0.1, 0.3])
def test_equals_optax(logits, targets, smoothing):
  labels = optax.smooth_labels(jax.nn.one_hot(targets, V), smoothing)
  each = optax.softmax_cross_entropy(logits, labels)
  mask = targets != PAD
  total, count = summed(smoothed_log_probs(logits, targets, smoothing), targets)
  np.testing.assert_allclose(total, np.asarray(each)[mask].sum(), rtol=1e-5)
  assert count == mask.sum()


def test_padding_is_left_out(logits, targets):
  loss = jax.jit(
    jax.value_and_grad(lambda x: summed(smoothed_log_probs(x, targets, 0.1), targets)[0])
  )
  total, grads = loss(logits)
  pad = targets == PAD
  assert (np.asarray(grads)[pad] == 0).all()
  assert (np.abs(np.asarray(grads)[~pad]).max(axis=-1) > 0).all()
  moved, _ = loss(np.where(pad[..., None], np.float32(50), logits))
  np.testing.assert_allclose(moved, total, rtol=1e-6)


def test_nothing_to_predict_counts_nothing(logits):
  assert summed(
    smoothed_log_probs(logits, np.zeros((3, 2, 4), np.int32)), np.zeros((3, 2, 4), np.int32)
  ) == (0, 0)


def test_bfloat16_logits_are_summed_in_float32(targets):
  """2,000 words of a loss near 2.4: a bfloat16 sum would be off by far more than 1 %."""
  logits = jnp.zeros((2000, V), jnp.bfloat16)
  words = jnp.full(2000, 4)
  total, count = summed(smoothed_log_probs(logits, words, 0.1), words)
  assert total.dtype == count.dtype == jnp.float32
  np.testing.assert_allclose([total, count], [2000 * np.log(V), 2000], rtol=1e-5)
  assert token_log_probs(logits, words).dtype == jnp.float32


@pytest.fixture(scope='module')
def setup():
  return Setup(next(case for case in CASES if case.name == 'temporal'))


@pytest.fixture(scope='module')
def quiet(setup):
  """(sum, count) without dropout, of any batch."""
  config = dataclasses.replace(setup.module.config, dropout=0.0)
  module = setup.module.clone(config=config)

  @jax.jit
  def run(inputs, targets):
    captioner = bind(module, setup.params)
    return jnp.stack(caption_loss(captioner, inputs, targets, jax.random.key(0), smoothing=0.1))

  return run


def test_losses_of_batches_add_up(setup, quiet):
  """Two batches together give the cross entropy of teacher forcing on the batch that joins them."""
  parts = sum(quiet(rows(setup.inputs, h), setup.targets[h]) for h in (slice(0, 4), slice(4, 8)))
  expected = summed(
    smoothed_log_probs(setup.logits(setup.inputs), setup.targets, 0.1), setup.targets
  )
  np.testing.assert_allclose(parts, expected, rtol=1e-5)


def test_batches_of_short_and_of_long_captions_weigh_each_word_alike(setup):
  """Their gradients add up to that of one batch of all, times the batches' share of the words."""
  config = common.base()
  config.train.label_smoothing = 0.1
  module = setup.module.clone(config=dataclasses.replace(setup.module.config, dropout=0.0))
  long = np.where(np.arange(S)[:, None] == 0, setup.targets, PAD)  # the first caption of each
  short = np.where(np.arange(S)[:, None] == 1, setup.targets, PAD)
  short[..., 2:] = PAD
  both = np.where(short == PAD, long, short)
  words = [(x != PAD).sum() for x in (long, short, both)]
  assert words[0] > 1.5 * words[1]

  def gradient(targets, tokens_per_step):
    objective = make_objective(config, module, tokens_per_step)
    run = jax.jit(jax.grad(objective.loss, has_aux=True))
    batch = {'captions': targets}
    return run(setup.params, batch, setup.inputs, jax.random.key(0), jnp.float32(0), {})

  (a, (one, _)), (b, (two, _)) = (gradient(x, float(words[2] / 2)) for x in (long, short))
  whole, (all_words, _) = gradient(both, None)
  jax.tree.map(lambda x, y, z: np.testing.assert_allclose((x + y) / 2, z, atol=1e-6), a, b, whole)
  # What is logged is the mean over the batch's own words.
  mean = (float(one['loss']) * words[0] + float(two['loss']) * words[1]) / words[2]
  np.testing.assert_allclose(mean, all_words['loss'], rtol=1e-5)


def test_the_models_own_losses_are_added_under_the_word_mask(setup):
  captioner = bind(setup.module, setup.params)

  def step(carry, *args, **kwargs):
    new, hidden, extras = captioner.step(carry, *args, **kwargs)
    return new, hidden, extras.replace(aux=jnp.exp2(carry.position.astype(jnp.float32)))

  costly = dataclasses.replace(captioner, step=step, rebind=None)

  @jax.jit
  def difference(inputs, targets):
    a, b = (caption_loss(c, inputs, targets, jax.random.key(0)) for c in (costly, captioner))
    return a[0] - b[0], a[1] - b[1]

  added, counted = difference(setup.inputs, setup.targets)
  expected = ((setup.targets != PAD) * 2.0 ** np.arange(L)).sum()
  np.testing.assert_allclose(added, expected, rtol=1e-4)
  assert counted == 0


def test_scheduled_sampling(setup):
  """At ratio 0 the loss is that of teacher forcing; above it is another; gradients reach all."""

  def loss(params, ratio):
    key = jax.random.key(0)
    return caption_loss(
      bind(setup.module, params),
      setup.inputs,
      setup.targets,
      key,
      smoothing=0.1,
      sampling_ratio=ratio,
    )

  gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))
  (given, _), _ = gradient(setup.params, np.float32(0))
  np.testing.assert_allclose(given, jax.jit(lambda p: loss(p, None)[0])(setup.params), rtol=1e-5)
  (own, count), grads = gradient(setup.params, np.float32(0.5))
  assert float(count) == (setup.targets != PAD).sum()
  assert abs(own - given) > 1e-3
  assert finite(grads)
  assert all(np.abs(g).max() > 0 for g in jax.tree.leaves(grads))


LINEAR = ScheduledSampling(
  name='linear', start_epoch=5.0, every_epochs=2.0, increase=0.1, most=0.25
)


@pytest.mark.parametrize(
  ('epoch', 'ratio'),
  [(0.0, 0.0), (4.99, 0.0), (5.0, 0.1), (6.9, 0.1), (7.0, 0.2), (9.0, 0.25), (50.0, 0.25)],
)
def test_linear_schedule(epoch, ratio):
  np.testing.assert_allclose(own_word_ratio(LINEAR, jnp.float32(epoch)), ratio, rtol=1e-6)


def test_ratio_changes_with_the_first_step_of_an_epoch():
  """Whatever the steps of an epoch: compiled, 41 k / 41 may be less than k."""
  schedules = (
    ScheduledSampling('linear', start_epoch=1.0, every_epochs=1.0, increase=0.01, most=1.0),
    ScheduledSampling('inverse_sigmoid', eta=24.0),
  )
  for settings in schedules:
    by_epoch = np.array([own_word_ratio(settings, jnp.float32(p)) for p in range(30)])
    for steps in (41, 97, 313):
      ratio = jax.jit(jax.vmap(lambda s, n=steps, c=settings: own_word_ratio(c, s / n)))
      first = jnp.arange(1, 30, dtype=jnp.int32) * steps
      with jax.numpy_dtype_promotion('standard'):
        at, before = ratio(first), ratio(first - 1)
      np.testing.assert_allclose(at, by_epoch[1:], atol=1e-6)
      np.testing.assert_allclose(before, by_epoch[:-1], atol=1e-6)


def test_other_schedules():
  assert own_word_ratio(ScheduledSampling('off'), jnp.float32(3)) is None
  with pytest.raises(ConfigError, match="scheduled_sampling.name.*'cubic'.*off, linear, inv"):
    ScheduledSampling('cubic')


def test_unknown_keys_of_scheduled_sampling_are_refused():
  c = common.base()
  c.train.scheduled_sampling = {'name': 'linear', 'start': 1.0}
  with pytest.raises(ConfigError, match='train.scheduled_sampling.start:.*start_epoch'):
    read_sampling(c)
