"""The compiled parts of a training stage: its initial state, its step and what a step needs."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed.mesh import layout, own_rows, replicated, to_devices
from vidcap_jax.models import sharding
from vidcap_jax.models.streams import example_inputs
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.training import compiled
from vidcap_jax.training.optimizer import make_optimizer, make_schedule
from vidcap_jax.training.stage import Stage
from vidcap_jax.training.step import (
  TrainState,
  initial_state,
  make_sample_steps,
  make_train_step,
  state_shardings,
)
from vidcap_jax.training.train_data import TrainData


@dataclasses.dataclass(frozen=True)
class Trainer:
  """What computes a stage.

  Attributes:
    objective: what is minimised.
    schedule: the learning rate at each step.
    initialise: a key -> the state before the first step.
    state_shapes: shapes and dtypes of the state.
    state_shardings: a sharding for each of its arrays.
    train_step: compiled, (state, batch) -> state, report.
    sample_steps: name -> compiled, (params, step, batch) -> arrays (B, …) for ``host_reward``.
    host_reward: what the objective computes outside the compiled step; None: nothing.
    tables: of the objective, on the devices.
    mesh: of all devices.
  """

  objective: Objective
  schedule: optax.Schedule
  initialise: Callable[[jax.Array], TrainState]
  state_shapes: TrainState
  state_shardings: TrainState
  train_step: Callable[[TrainState, Mapping], tuple[TrainState, dict]]
  sample_steps: Mapping[str, Callable[..., jax.Array]]
  host_reward: Callable[..., dict] | None
  tables: Any
  mesh: Mesh

  def complete(self, state: TrainState, batch: Mapping, rows) -> dict:
    """A batch on the devices with all that the objective reads of it.

    Args:
      state: before the step.
      batch: on the devices, (B, …).
      rows: ``video_index`` of this host's rows.
    """
    batch = {**batch, 'tables': self.tables}
    if self.host_reward:
      samples = {
        name: draw(state.params, state.step, batch) for name, draw in self.sample_steps.items()
      }
      waiting = {name: functools.partial(own_rows, x, self.mesh) for name, x in samples.items()}
      rewards = self.host_reward(waiting, rows)
      batch['drawn'] = {**samples, **to_devices(rewards, self.mesh)}
    return batch


def make_trainer(
  config: ConfigDict, stage: Stage, data: TrainData, mesh: Mesh, log: Callable[[str], None]
) -> Trainer:
  """Makes objective, optimiser and compiled steps; logs the mesh and how parameters are sharded."""
  streams, module, steps_per_epoch = stage.shape.streams, stage.module, data.order.steps_per_epoch
  schedule = make_schedule(config.optimizer, steps_per_epoch, data.total_steps)
  optimizer = make_optimizer(config.optimizer, schedule)
  objective = make_objective(config, module, data.tokens_per_step)
  example = example_inputs(streams, config, module.config.needs)
  for note in objective.notes(data.captions, stage.vocabulary) if objective.notes else ():
    log(note)
  tables = jax.device_get(objective.tables(data.captions, stage.vocabulary))
  tables = jax.device_put(tables, replicated(mesh))
  host_reward = objective.host_reward and objective.host_reward(data.captions, stage.vocabulary)
  most_captions = int(data.order.caption_counts.max(initial=0))

  def initialise(key):
    videos = len(data.source)
    return initial_state(key, module, example, objective, optimizer, videos, most_captions)

  shapes = jax.eval_shape(initialise, jax.random.key(0))
  params_by_size = restore.params_by_size(streams, config)
  param_shardings = sharding.param_shardings(
    config.mesh.params, mesh, len(stage.vocabulary), params_by_size
  )
  log(f'{layout(mesh)}; {sharding.summary(shapes.params, param_shardings)}')
  shardings = state_shardings(shapes, optimizer, param_shardings, mesh)
  train_step = make_train_step(
    config, objective, optimizer, streams, steps_per_epoch, data.total_steps, shardings
  )
  return Trainer(
    objective=objective,
    schedule=schedule,
    initialise=initialise,
    state_shapes=shapes,
    state_shardings=shardings,
    train_step=compiled.compile_by_shape(train_step, log),
    sample_steps=make_sample_steps(config, objective, streams, data.total_steps),
    host_reward=host_reward,
    tables=tables,
    mesh=mesh,
  )
