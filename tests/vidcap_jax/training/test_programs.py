"""Neither slices nor how the optimiser's moments are sharded change an update."""

import dataclasses
import re

import jax
import numpy as np
import pytest

from tests import tiny
from tests.vidcap_jax.models.test_sharding import sharded_names
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.distributed import mesh as distributed
from vidcap_jax.distributed.mesh import make_mesh, to_devices
from vidcap_jax.training import experiment


def stage_of(tiny_data, **mesh_settings):
  config = tiny.small_config(tiny_data, batch_size=8)
  config.mesh.update(mesh_settings)
  config.optimizer.name = 'adam'
  own_config = experiment.stage_config(config, 'xe')
  mesh = make_mesh(own_config.mesh.data, own_config.mesh.model)
  return make_stage(own_config, data_sizes.from_data_set(own_config), mesh)


def random_batch(stage):
  """Values for the abstract batch of a step."""
  rng = np.random.default_rng(0)
  shapes = stage.train_batch(stage.shape.length)
  del shapes['tables']
  make = {'f': lambda s: rng.normal(size=s), 'b': np.ones, 'i': lambda s: rng.integers(4, 9, s)}
  batch = jax.tree.map(lambda x: make[x.dtype.kind](x.shape).astype(x.dtype), shapes)
  return {**to_devices(batch, stage.mesh), 'tables': {}}


def states_after(stage, steps=3):
  """The state after some steps, and the losses."""
  programs, batch, losses = stage.programs, random_batch(stage), []
  initialise = jax.jit(programs.initialise, out_shardings=programs.state_shardings)
  state = initialise(jax.random.key(0))
  for _ in range(steps):
    state, report = programs.train_step(state, batch)
    losses.append(float(report['loss']))
  return state, losses


@pytest.mark.parametrize('layout', [{}, {'model': 2, 'params': 'vocabulary'}])
def test_sharded_moments_train_alike(tiny_data, layout):
  expected, losses = states_after(stage_of(tiny_data, **layout))
  stage = stage_of(tiny_data, optimizer='sharded', **layout)
  found, found_losses = states_after(stage)
  np.testing.assert_allclose(found_losses, losses, rtol=1e-5)
  assert losses[-1] < losses[0]
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6),
    found.params,
    expected.params,
  )
  shardings = jax.tree.map(lambda x: x.sharding, (found.params, expected.params))
  assert shardings[0] == shardings[1]
  moments = sharded_names(found.opt_state) - sharded_names(expected.opt_state)
  assert any('.mu' in name and 'kernel' in name for name in moments)
  as_made = jax.tree.map(lambda x: x.sharding, found)
  assert as_made == dataclasses.replace(stage.programs.state_shardings, step=as_made.step)


@pytest.mark.parametrize('layout', [{}, {'model': 2, 'params': 'vocabulary'}])
def test_slices_train_alike(tiny_data, layout, monkeypatch):
  """Eight devices as two slices, in another order than in one slice."""
  one_slice = stage_of(tiny_data, **layout)
  _, losses = states_after(one_slice)
  pair = layout.get('model', 1)
  monkeypatch.setattr(distributed, 'slice_index', lambda device: device.id // pair % 2)
  stage = stage_of(tiny_data, **layout)
  order = [device.id for device in stage.mesh.devices.flat]
  assert order != [device.id for device in one_slice.mesh.devices.flat]
  np.testing.assert_allclose(states_after(stage)[1], losses, rtol=1e-5)


@pytest.mark.parametrize('name', ['samples', 'greedy'])
def test_samples_for_host_rewards_stay_on_their_devices(tiny_data, name):
  """Loops for fewer videos gather those of each device, and send no rows between devices."""
  config = tiny.small_config(tiny_data, batch_size=64)
  config.objective.name = 'self_critical'
  config.objective.rewards = {'cider': 0.0, 'meteor': 1.0}
  config.objective.from_scratch = True
  own_config = experiment.stage_config(config, 'xe')
  mesh = make_mesh(data=2, devices=jax.devices()[:2])
  stage = make_stage(own_config, data_sizes.from_data_set(own_config), mesh)
  arguments = (stage.state.params, stage.state.step, stage.train_batch(stage.shape.length))
  text = stage.programs.sample_steps[name].lower(*arguments).compile().as_text()
  assert not re.search(r' (all-gather|all-to-all|collective-\w+)(-start)?\(', text)
  shapes = re.findall(r'= (\S+) all-reduce\(', text)
  assert shapes
  assert all(re.match(r'(pred|s32)\[1?\]', shape) for shape in shapes), shapes
