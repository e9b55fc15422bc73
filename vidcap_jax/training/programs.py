"""The jitted programs of a training stage, from settings and sizes alone.

Nothing is read or computed, so that they can be compiled or counted without data and devices.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import optax
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import restore
from vidcap_jax.data.schema import Stream
from vidcap_jax.models import captioner, sharding
from vidcap_jax.models.streams import example_inputs
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.objectives.word_log_probs import with_limit
from vidcap_jax.training.optimizer import make_optimizer, make_schedule
from vidcap_jax.training.step import (
  TrainState,
  initial_state,
  make_sample_steps,
  make_train_step,
  state_shardings,
)


@dataclasses.dataclass(frozen=True)
class SplitSizes:
  """The numbers of a training split that its programs depend on.

  Attributes:
    videos: of the split.
    most_captions: of any of its videos.
    steps_per_epoch: of training on it.
    total_steps: of the stage.
    tokens_per_step: what a batch's sum over words is divided by; None: its own number of words.
  """

  videos: int
  most_captions: int
  steps_per_epoch: int
  total_steps: int
  tokens_per_step: float | None = None


@dataclasses.dataclass(frozen=True)
class StagePrograms:
  """What a stage runs on the devices.

  Attributes:
    objective: what is minimised.
    schedule: the learning rate at each step.
    initialise: a key -> the state before the first step.
    state_shapes: shapes and dtypes of the state.
    state_shardings: a sharding for each of its arrays.
    moments_sharded: whether the optimiser's moments are sharded otherwise than the parameters.
    train_step: jitted, (state, batch) -> state, report.
    sample_steps: name -> jitted, (params, step, batch) -> arrays (B, …) for ``host_reward``.
  """

  objective: Objective
  schedule: optax.Schedule
  initialise: Callable[[jax.Array], TrainState]
  state_shapes: TrainState
  state_shardings: TrainState
  moments_sharded: bool
  train_step: jax.stages.Wrapped
  sample_steps: Mapping[str, Callable[..., jax.Array]]


def make_programs(
  config: ConfigDict,
  module: nn.Module,
  streams: Sequence[Stream],
  sizes: SplitSizes,
  mesh: Mesh,
) -> StagePrograms:
  """Makes objective, optimiser and jitted steps.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    module: the model.
    streams: those that it reads.
    sizes: of the training split.
    mesh: of the devices that the programs are for; they need not be there.
  """
  schedule = make_schedule(config.optimizer, sizes.steps_per_epoch, sizes.total_steps)
  optimizer = make_optimizer(config.optimizer, schedule)
  objective = make_objective(with_limit(config, mesh), module, sizes.tokens_per_step)
  example = example_inputs(streams, config, module.config.needs)

  def initialise(key):
    videos, most_captions = sizes.videos, sizes.most_captions
    return initial_state(key, module, example, objective, optimizer, videos, most_captions)

  shapes = jax.eval_shape(initialise, jax.random.key(0))
  params = _param_shardings(config, module, streams, mesh)
  how = config.mesh.get('optimizer', 'as_params')
  moments = sharding.moment_shardings(how, mesh, shapes.params, params)
  shardings = state_shardings(shapes, optimizer, params, mesh, moments)
  steps = sizes.steps_per_epoch, sizes.total_steps
  return StagePrograms(
    objective=objective,
    schedule=schedule,
    initialise=initialise,
    state_shapes=shapes,
    state_shardings=shardings,
    moments_sharded=moments is not None,
    train_step=make_train_step(config, objective, optimizer, streams, *steps, shardings, moments),
    sample_steps=make_sample_steps(config, objective, streams, sizes.total_steps, mesh),
  )


def _param_shardings(
  config: ConfigDict, module: nn.Module, streams: Sequence[Stream], mesh: Mesh
) -> Any:
  """A sharding for each parameter, by ``mesh.params``."""
  params_by_size = restore.params_by_size(streams, config)
  words = module.config.vocab_size
  axes = captioner.sharded_axes(module)
  return sharding.param_shardings(config.mesh.params, mesh, words, params_by_size, axes)


def step_lengths(config: ConfigDict, length: int) -> list[int]:
  """The numbers of tokens that batches are cut to; a step is compiled for each of them.

  Args:
    config: the stage's own.
    length: L, tokens of the longest caption.
  """
  return [*(bucket for bucket in config.data.length_buckets if bucket < length), length]
