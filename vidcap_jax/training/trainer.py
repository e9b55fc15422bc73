"""The compiled parts of a training stage: its initial state, its step and what a step needs."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import optax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.distributed.mesh import layout, own_rows, replicated, to_devices
from vidcap_jax.models import sharding
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.training import compiled
from vidcap_jax.training.programs import SplitSizes, make_programs
from vidcap_jax.training.stage import Stage
from vidcap_jax.training.step import TrainState
from vidcap_jax.training.train_data import TrainData, lengths_to_come


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
  config: ConfigDict,
  stage: Stage,
  data: TrainData,
  mesh: Mesh,
  log: Callable[[str], None],
  compiler: ThreadPoolExecutor,
  behind: Sequence[compiled.Behind] = (),
) -> Trainer:
  """Makes objective, optimiser and compiled steps; logs the mesh and how parameters are sharded.

  Args:
    config: the stage's own.
    stage: its parts.
    data: its training split.
    mesh: of all devices.
    log: prints a line.
    compiler: threads that compile the steps.
    behind: what they compile after them.
  """
  programs = make_programs(config, stage.module, stage.shape.streams, split_sizes(data), mesh)
  objective = programs.objective
  for note in objective.notes(data.captions, stage.vocabulary) if objective.notes else ():
    log(note)
  tables = jax.device_get(objective.tables(data.captions, stage.vocabulary))
  tables = jax.device_put(tables, replicated(mesh))
  host_reward = objective.host_reward and objective.host_reward(data.captions, stage.vocabulary)
  params = programs.state_shapes.params, programs.state_shardings.params
  moments = '; moments and updates sharded over data' if programs.moments_sharded else ''
  log(f'{layout(mesh)}; {sharding.summary(*params)}{moments}')
  return Trainer(
    objective=objective,
    schedule=programs.schedule,
    initialise=programs.initialise,
    state_shapes=programs.state_shapes,
    state_shardings=programs.state_shardings,
    train_step=compiled.compile_by_shape(
      programs.train_step,
      log,
      compiler,
      functools.partial(upcoming_arguments, config, data),
      behind,
    ),
    sample_steps=programs.sample_steps,
    host_reward=host_reward,
    tables=tables,
    mesh=mesh,
  )


def upcoming_arguments(
  config: ConfigDict, data: TrainData, state: TrainState, batch: Mapping
) -> Iterator[tuple[TrainState, dict]]:
  """Abstract arguments of all steps from this one on, one for each length of captions.

  Args:
    config: the stage's own.
    data: its training split.
    state, batch: of the step that comes next.
  """
  steps = range(int(state.step), data.total_steps)
  state, batch = compiled.abstract((state, dict(batch)))
  captions = batch['captions']
  for length in lengths_to_come(config, data, steps):
    shape = (*captions.shape[:-1], length)
    captions = jax.ShapeDtypeStruct(shape, captions.dtype, sharding=captions.sharding)
    yield state, {**batch, 'captions': captions}


def split_sizes(data: TrainData) -> SplitSizes:
  """The sizes of a training split."""
  return SplitSizes(
    videos=len(data.source),
    most_captions=int(data.order.caption_counts.max(initial=0)),
    steps_per_epoch=data.order.steps_per_epoch,
    total_steps=data.total_steps,
    tokens_per_step=data.tokens_per_step,
  )
