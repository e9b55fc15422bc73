import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from configs import common
from vidcap_jax.errors import ConfigError
from vidcap_jax.training.optimizer import (
  OPTIMIZERS,
  SCHEDULES,
  keeps_finite,
  make_optimizer,
  make_schedule,
)

STEPS = 10  # of an epoch
TOTAL = 200


def rates(steps, total=TOTAL, per_epoch=STEPS, **schedule):
  defaults = {'warmup_epochs': 0.0, 'factor': 0.8, 'every_epochs': 1.0, 'start_epoch': 3.0}
  defaults |= {'warmup_start': 0.0, 'final': 0.0}
  settings = {'learning_rate': 0.5, 'schedule': {**defaults, **schedule}}
  schedule = make_schedule(settings, per_epoch, total)
  compiled = jax.jit(jax.vmap(schedule))(jnp.asarray(steps, jnp.int32))
  one_by_one = [float(schedule(step)) for step in steps]
  np.testing.assert_allclose(compiled, one_by_one, rtol=1e-5, atol=1e-9)
  return compiled


def test_constant():
  np.testing.assert_allclose(rates([0, 7, TOTAL], name='constant'), 0.5)


def test_step():
  """Full rate in epochs 0 to 2, then times 0.8 with the first step of every epoch."""
  steps = [0, 29, 30, 39, 40, 49, 50, 199]
  expected = 0.5 * 0.8 ** np.array([0, 0, 1, 1, 2, 2, 3, 17])
  np.testing.assert_allclose(rates(steps, name='step'), expected, rtol=1e-5)


def test_step_every_other_epoch():
  steps = [0, 29, 30, 49, 50, 70]
  expected = 0.5 * 0.1 ** np.array([0, 0, 1, 1, 2, 3])
  np.testing.assert_allclose(
    rates(steps, name='step', factor=0.1, every_epochs=2.0), expected, 1e-5
  )


def test_step_in_parts_of_an_epoch():
  steps = [0, 4, 5, 7, 8, 10, 11]
  expected = 0.5 * 0.5 ** np.array([0, 0, 1, 1, 2, 2, 3])
  settings = {'factor': 0.5, 'start_epoch': 0.5, 'every_epochs': 0.3}
  np.testing.assert_allclose(rates(steps, name='step', **settings), expected, rtol=1e-5)


@pytest.mark.parametrize('per_epoch', [41, 49, 97, 313, 977])
def test_step_changes_with_the_first_step_of_an_epoch(per_epoch):
  """Compiled, per_epoch * k / per_epoch may be less than k."""
  first = np.arange(3, 20) * per_epoch
  expected = 0.5 * 0.8 ** np.arange(1, 18)
  at = rates(first, 20 * per_epoch, per_epoch, name='step')
  np.testing.assert_allclose(at, expected, rtol=1e-5)
  before = rates(first - 1, 20 * per_epoch, per_epoch, name='step')
  np.testing.assert_allclose(before, expected / 0.8, rtol=1e-5)


def test_linear():
  values = rates([0, 50, 100, 200, 300], name='linear', final=0.2)
  np.testing.assert_allclose(values, [0.5, 0.4, 0.3, 0.1, 0.1], rtol=1e-5)


def test_cosine():
  values = rates([0, 50, 100, 200, 300], name='cosine', final=0.2)
  share = 0.2 + 0.8 * (1 + np.cos(np.pi * np.array([0, 0.25, 0.5, 1, 1]))) / 2
  np.testing.assert_allclose(values, 0.5 * share, rtol=1e-5)


@pytest.mark.parametrize('name', SCHEDULES)
def test_warmup_rises_first_and_shifts_nothing_but_the_decay(name):
  warm = rates([0, 5, 10, 20, 30, 40, TOTAL], name=name, warmup_epochs=2.0)
  np.testing.assert_allclose(warm[:4], [0, 0.125, 0.25, 0.5], rtol=1e-5)
  # Steps of the rate stand where they stood; the others reach their end at the end of training.
  after = {
    'constant': [0.5] * 3,
    'step': [0.4, 0.32, 0.5 * 0.8**18],
    'linear': [0.5 * 170 / 180, 0.5 * 160 / 180, 0],
    'cosine': [*(0.25 * (1 + np.cos(np.pi * np.array([10, 20]) / 180))), 0],
  }[name]
  np.testing.assert_allclose(warm[4:], after, rtol=1e-4, atol=1e-7)


def test_warmup_from_a_share_of_the_rate():
  warm = rates([0, 5, 10, 20, 21], name='constant', warmup_epochs=2.0, warmup_start=0.2)
  np.testing.assert_allclose(warm, [0.1, 0.2, 0.3, 0.5, 0.5], rtol=1e-5)


def test_two_levels_after_a_warmup():
  """30 epochs: 3 to rise from a thousandth of the rate, 20 at the rate, 7 at a hundredth of it."""
  schedule = {'warmup_epochs': 3.0, 'warmup_start': 1e-3, 'factor': 0.01}
  schedule |= {'start_epoch': 23.0, 'every_epochs': 7.0}
  at = rates([0, 15, 30, 229, 230, 299], 300, name='step', **schedule)
  np.testing.assert_allclose(at, np.array([5e-4, 0.25025, 0.5, 0.5, 5e-3, 5e-3]), rtol=1e-4)


def settings(name, **changes):
  defaults = {'b1': 0.9, 'b2': 0.99, 'eps': 1e-8, 'momentum': 0.0, 'weight_decay': 0.0}
  return {'name': name, 'clip_norm': 0.0, **defaults, **changes}


def one_update(settings, grads, params, rate=0.1):
  optimizer = make_optimizer(settings, optax.constant_schedule(rate))

  @jax.jit
  def run(grads, params):
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    return updates

  return jax.device_get(run(grads, params))


PARAMS = {'a': np.ones(2, np.float32), 'b': np.full((1, 2), 2, np.float32)}
GRADS = {'a': np.array([3, 0], np.float32), 'b': np.array([[0, -4]], np.float32)}  # norm 5


@pytest.mark.parametrize(
  ('changes', 'per_gradient'),
  [
    ({'name': 'sgd'}, lambda g: -0.1 * g),
    ({'name': 'adam'}, lambda g: -0.1 * np.sign(g)),
    ({'name': 'adamw'}, lambda g: -0.1 * np.sign(g)),
    ({'name': 'rmsprop'}, lambda g: -0.1 * np.sign(g) / np.sqrt(0.01)),
  ],
)
def test_first_update_of_each_optimizer(changes, per_gradient):
  updates = one_update(settings(**changes), GRADS, PARAMS)
  expected = jax.tree.map(per_gradient, GRADS)
  jax.tree.map(lambda u, e: np.testing.assert_allclose(u, e, rtol=1e-3), updates, expected)


def test_weight_decay():
  updates = one_update(settings('adamw', weight_decay=0.3), GRADS, PARAMS)
  np.testing.assert_allclose(updates['a'], [-0.1 - 0.03, -0.03], rtol=1e-3)
  np.testing.assert_allclose(updates['b'], [[-0.06, 0.1 - 0.06]], rtol=1e-3)


@pytest.mark.parametrize('name', OPTIMIZERS)
def test_every_optimizer_finds_a_minimum(name):
  optimizer = make_optimizer(
    settings(name, momentum=0.5 if name in ('sgd', 'rmsprop') else 0.0),
    optax.exponential_decay(0.1, 20, 0.5),
  )
  gradient = jax.grad(lambda p: sum(jnp.square(x - 1.5).sum() for x in p.values()))

  @jax.jit
  def run(params):
    def step(_, state):
      params, opt_state = state
      updates, opt_state = optimizer.update(gradient(params), opt_state, params)
      return optax.apply_updates(params, updates), opt_state

    return jax.lax.fori_loop(0, 150, step, (params, optimizer.init(params)))[0]

  for x in run(PARAMS).values():
    np.testing.assert_allclose(x, 1.5, atol=0.05)


@pytest.mark.parametrize(('clip', 'scale'), [(2.5, 0.5), (5.1, 1.0), (0.0, 1.0)])
def test_clipping_by_the_norm_of_all_gradients(clip, scale):
  updates = one_update(settings('sgd', clip_norm=clip), GRADS, PARAMS)
  expected = jax.tree.map(lambda g: -0.1 * scale * g, GRADS)
  jax.tree.map(lambda u, e: np.testing.assert_allclose(u, e, rtol=1e-5), updates, expected)


def test_unknown_names():
  with pytest.raises(
    ConfigError, match="optimizer.schedule.name.*'stairs'.*constant, step, linear"
  ):
    rates([0], name='stairs')
  with pytest.raises(ConfigError, match="optimizer.name.*'lion'.*adam, adamw, rmsprop, s"):
    make_optimizer(settings('lion'), optax.constant_schedule(0.1))


def test_unknown_keys_are_refused():
  with pytest.raises(ConfigError, match='optimizer.schedule.warmup_epoch:.*schedule.warmup_epochs'):
    rates([0], warmup_epoch=2.0)
  with pytest.raises(ConfigError, match='optimizer.weight_deccay:.*optimizer.weight_decay'):
    make_optimizer(settings('adam', weight_deccay=0.1), optax.constant_schedule(0.1))


LARGEST = np.float32(1.8e19)  # its square is finite


def updates_of(settings, gradients):
  """All updates and states of an optimiser on gradients of equal elements, one after another."""
  section = common.base().optimizer
  section.update(settings)
  optimizer = make_optimizer(section, make_schedule(section, STEPS, TOTAL))
  params = jnp.array([0.0, 1.0, -2.0])
  state, found = optimizer.init(params), []
  for size in gradients:
    grads = jnp.array([size, -size / 3, 0.0], jnp.float32)
    updates, state = optimizer.update(grads, state, params)
    found.append((updates, state))
  return section, found


@pytest.mark.parametrize('clip', [0.0, 5.0])
@pytest.mark.parametrize(
  'settings',
  [
    {'name': 'adam'},
    {'name': 'adam', 'learning_rate': 1e3, 'b1': 0.0, 'b2': 1 - 1e-5, 'eps': 1e-12},
    {'name': 'adamw', 'weight_decay': 1.0, 'learning_rate': 1.0},
    {'name': 'rmsprop', 'momentum': 0.99999, 'learning_rate': 1e3, 'eps': 1e-12},
    {'name': 'sgd', 'momentum': 0.99999, 'learning_rate': 1e3},
  ],
)
def test_finite_gradients_give_finite_updates(settings, clip):
  gradients = [LARGEST, LARGEST, 0.0, 1e-45, 1e-30, -LARGEST, 1.0]
  section, found = updates_of({**settings, 'clip_norm': clip}, gradients)
  assert keeps_finite(section)
  for leaf in jax.tree.leaves(found):
    assert np.isfinite(leaf).all()


@pytest.mark.parametrize(
  ('settings', 'gradients'),
  [
    ({'learning_rate': np.nan}, [1.0]),
    ({'learning_rate': np.inf}, [1.0]),
    ({'eps': 0.0}, [0.0]),
    ({'b1': 1.0}, [1.0]),
    ({'b2': 1.0}, [1.0]),
    ({'name': 'sgd', 'learning_rate': 1e30}, [LARGEST]),
    ({'name': 'sgd', 'momentum': 1e10}, [LARGEST, LARGEST, LARGEST, LARGEST]),
    ({'name': 'rmsprop', 'eps': 0.0}, [0.0]),
    ({'schedule': {'name': 'step', 'factor': np.inf, 'start_epoch': 0.0}}, [1.0]),
  ],
)
def test_settings_with_which_they_do_not(settings, gradients):
  section, found = updates_of({'clip_norm': 0.0, **settings}, gradients)
  assert not all(np.isfinite(updates).all() for updates, _ in found)
  assert not keeps_finite(section)
