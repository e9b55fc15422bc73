"""Parameters that a step holds fixed, and where in its epochs and annealing a step is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import common
from tests.cases import V
from tests.vidcap_jax.objectives.setups import setup
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.distributed.mesh import batch_shards, make_mesh, replicated
from vidcap_jax.models.captioner import bind
from vidcap_jax.models.refocus import Refocus
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.training import step as steps
from vidcap_jax.training.optimizer import make_optimizer, make_schedule
from vidcap_jax.training.step import epoch_at, progress_at

ENCODER = set(Refocus.encoder_params)


def one_step(config, objective, params, batch, streams):
  """Parameters and report after a step of AdamW with weight decay."""
  config.optimizer.update({'name': 'adamw', 'learning_rate': 0.1, 'weight_decay': 0.1})
  optimizer = make_optimizer(config.optimizer, make_schedule(config.optimizer, 1, 1))
  params = jax.tree.map(jnp.array, params)  # the step uses them up
  opt_state, objective_state = optimizer.init(params), objective.initial_state(8, 2)
  state = steps.TrainState(
    jnp.int32(0), params, opt_state, objective_state, jnp.int32(0), jnp.zeros(())
  )
  run = steps.make_train_step(config, objective, optimizer, streams, 1, 1)
  state, report = run(state, batch)
  assert bool(report['finite'])
  return jax.device_get(state.params), report


def changed(before, after):
  """The names of parameters of which some value differs."""
  differ = jax.tree.map(lambda a, b: bool((np.asarray(a) != np.asarray(b)).any()), before, after)
  return {name for name, tree in differ.items() if any(jax.tree.leaves(tree))}


@pytest.mark.parametrize('fixed', [(), ('encoder',), ('encoder', 'absent')])
def test_fixed_parameters_have_no_gradient_and_no_update(fixed):
  params = {'encoder': {'kernel': jnp.ones(3)}, 'words': {'embedding': jnp.full(4, 2.0)}}

  def loss(params, batch, inputs, key, epoch, state):
    value = sum((x**2).sum() for x in jax.tree.leaves(params))
    return value, ({'loss': value}, state)

  objective = Objective(loss, fixed_params=fixed)
  batch = {'features': {}, 'masks': {}, 'category': None, 'key_frame': None}
  after, report = one_step(common.base(), objective, params, batch, ())
  expected = {'words'} if fixed else {'encoder', 'words'}
  assert changed(params, after) == expected
  norm = sum((2 * x**2).sum() * 2 for k in expected for x in params[k].values()) ** 0.5
  assert report['grad_norm'] == pytest.approx(norm)  # nothing of the fixed ones is in it


def test_the_encoder_of_refocus_has_exactly_no_gradient():
  """All that Algorithm 1 computes comes from its ``encoder_params``, and from nothing else."""
  model = setup('refocus')
  params, names = model.params, Refocus.encoder_params

  @jax.jit
  def gradients(params):
    def codes(params, fixed):
      params = steps.replace_fixed(params, fixed, jax.lax.stop_gradient)
      memory = bind(model.module, params).encode(model.inputs, None, train=True)
      return jnp.sin(memory.passes.code).sum() + jnp.sin(memory.focus.scores).sum()

    return jax.grad(codes)(params, names), jax.grad(codes)(params, ())

  fixed, free = gradients(params)
  zeros = jax.tree.map(np.zeros_like, params)
  assert changed(zeros, fixed) == set()
  assert changed(zeros, free) == ENCODER


@pytest.mark.slow
def test_reinforcement_with_a_fixed_encoder_trains_only_the_decoder():
  model, config = setup('refocus'), common.base()
  config.objective = common.self_critical()
  config.objective.update({'encoder': 'fixed', 'cross_entropy': 0.5})
  config.train.init_from, config.data.length_buckets = 'stage:xe', ()
  config.data.standardise = False
  objective = make_objective(config, model.module, None)
  vocabulary = Vocabulary((*SPECIAL, *(f'w{i}' for i in range(V - len(SPECIAL)))), 'whitespace')
  inputs = model.inputs
  batch = {
    'features': inputs.features,
    'masks': inputs.masks,
    'category': inputs.category,
    'key_frame': inputs.key_frame,
    'captions': jnp.asarray(model.targets),
    'video_index': jnp.arange(8),
    'tables': objective.tables([[f'w{i} w{i + 1} w0', f'w{i} w1'] for i in range(8)], vocabulary),
  }
  kinds = {2: 'vector', 3: 'sequence', 4: 'regions'}
  streams = [
    Stream(k, kinds[x.ndim], (*(None,) * (x.ndim - 2), x.shape[-1]))
    for k, x in inputs.features.items()
  ]
  before = jax.device_get(model.params)
  after, _ = one_step(config, objective, before, batch, streams)
  assert changed(before, after) == set(before) - ENCODER


@pytest.mark.parametrize(
  ('first', 'annealed', 'epochs', 'progress'),
  [
    (0.0, (0.0, 1.0), (0, 1.5, 3), (0, 0.5, 1)),
    (10.0, (0.0, 1.0), (10, 11.5, 13), (0, 0.5, 1)),
    (3.0, (0.5, 1.0), (3, 4.5, 6), (0.5, 0.75, 1)),
    (2.0, (1.0, 1.0), (2, 3.5, 5), (1, 1, 1)),
  ],
)
def test_a_stage_goes_on_where_another_ended(first, annealed, epochs, progress):
  c = common.base()
  c.train.first_epoch, c.train.annealed = first, annealed
  at = jax.jit(lambda step: (epoch_at(c, step, 4), progress_at(c, step, 12)))
  for step, expected in zip((0, 6, 12), zip(epochs, progress)):
    assert at(step) == expected


def test_a_config_from_before_these_keys_starts_anew():
  c = common.base()
  with c.unlocked():
    del c.train.first_epoch, c.train.annealed
  step = jnp.int32(6)
  assert (epoch_at(c, step, 4), progress_at(c, step, 12)) == (1.5, 0.5)


@pytest.mark.parametrize(
  ('eps', 'size', 'norms'), [(1e-8, 1.0, 1), (1e-8, np.inf, 1), (0.0, 1.0, 2), (0.0, 0.0, 2)]
)
def test_an_update_that_is_not_finite_is_left_out(eps, size, norms):
  """Without an eps, 0 / 0 in Adam is not finite though gradients are: its norm shows it."""
  params = {'words': jnp.full(4, 2.0)}

  def loss(params, batch, inputs, key, epoch, state):
    value = (params['words'] * batch['size']).sum()
    return value, ({'loss': value}, {'sum': state['sum'] + value})

  config = common.base()
  config.optimizer.eps = eps
  optimizer = make_optimizer(config.optimizer, make_schedule(config.optimizer, 1, 1))
  zero = jnp.int32(0)
  state = steps.TrainState(
    zero, params, optimizer.init(params), {'sum': jnp.zeros(())}, jnp.int32(0), jnp.zeros(())
  )
  batch = {
    'features': {},
    'masks': {},
    'category': None,
    'key_frame': None,
    'size': jnp.float32(size),
  }
  run = steps.make_train_step(config, Objective(loss), optimizer, (), 1, 1)
  before = jax.device_get(state)
  # Adam has a root too, and clipping takes the norm of the gradients again, which XLA merges.
  assert str(run.trace(state, batch).jaxpr).count('sqrt') == norms + 2
  after, report = jax.device_get(run(state, batch))
  finite = size == 1.0
  assert bool(report['finite']) == finite
  assert int(after.skipped) == (not finite)
  same = jax.tree.map(
    np.array_equal, *((s.params, s.opt_state, s.objective_state) for s in (before, after))
  )
  assert all(jax.tree.leaves(same)) != finite


@pytest.mark.parametrize(('sharded', 'shards'), [(True, 4), (False, 1)])
def test_layers_are_told_the_shards_of_a_batch(sharded, shards):
  """While the step is traced, and not after it."""
  mesh, told = make_mesh(model=2), []

  def loss(params, batch, inputs, key, epoch, state):
    told.append(batch_shards())
    return params['w'], ({'loss': params['w']}, state)

  config = common.base()
  optimizer = make_optimizer(config.optimizer, make_schedule(config.optimizer, 1, 1))
  params = {'w': jnp.zeros(())}
  zero = jnp.int32(0)
  state = steps.TrainState(zero, params, optimizer.init(params), (), zero, jnp.zeros(()))
  shardings = jax.tree.map(lambda _: replicated(mesh), state) if sharded else None
  run = steps.make_train_step(config, Objective(loss), optimizer, (), 1, 1, shardings)
  run.trace(state, {'features': {}, 'masks': {}, 'category': None, 'key_frame': None})
  assert told == [shards]
  assert batch_shards() == 1
