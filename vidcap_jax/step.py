"""One training step, compiled: loss, gradients, update."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct
from ml_collections import ConfigDict

from vidcap_jax.data.schema import Stream
from vidcap_jax.features import to_inputs
from vidcap_jax.models.captioner import Inputs, init_params
from vidcap_jax.objectives.objective import Objective

Array = jax.Array


@struct.dataclass
class TrainState:
  """What training changes from step to step.

  Attributes:
    step: int32, steps done.
    params: model parameters.
    opt_state: of the optimiser.
    per_video: what the objective keeps for each video of the training split.
    skipped: int32, steps so far whose update was not finite and was left out.
    smooth_loss: float32, exponential mean of the loss for people to read.
  """

  step: Array
  params: Any
  opt_state: Any
  per_video: Any
  skipped: Array
  smooth_loss: Array


def initial_state(
  key: Array,
  module: nn.Module,
  example: Inputs,
  objective: Objective,
  optimizer: optax.GradientTransformation,
  videos: int,
  most_captions: int,
) -> TrainState:
  """The state before the first step.

  Args:
    key: of the parameters.
    example: inputs of one video, for shapes.
    videos, most_captions: of the training split, and of any of its videos.
  """
  params = init_params(module, key, example)
  per_video = objective.per_video(videos, most_captions)
  zero = jnp.zeros((), jnp.int32)
  return TrainState(zero, params, optimizer.init(params), per_video, zero, jnp.zeros(()))


def make_train_step(
  config: ConfigDict,
  objective: Objective,
  optimizer: optax.GradientTransformation,
  streams: Sequence[Stream],
  steps_per_epoch: int,
  total_steps: int,
) -> Callable[[TrainState, Mapping], tuple[TrainState, dict[str, Array]]]:
  """A jitted function (state, batch) -> state, report; the state given to it is used up.

  An update that is not finite is left out and counted. The report holds the objective's scalars,
  smooth_loss, grad_norm, finite and skipped.
  """

  @functools.partial(jax.jit, donate_argnums=0)
  def train_step(state, batch):
    key = jax.random.fold_in(jax.random.key(config.seed), state.step)
    inputs = to_inputs(batch, streams, config.data.standardise)
    inputs = dataclasses.replace(inputs, progress=state.step / total_steps)
    epoch = state.step / steps_per_epoch
    (_, (report, per_video)), grads = jax.value_and_grad(objective.loss, has_aux=True)(
      state.params, batch, inputs, key, epoch, state.per_video
    )
    norm = optax.tree.norm(grads)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    loss = report['loss']
    finite = jnp.isfinite(jnp.stack([loss, norm, optax.tree.norm(updates)])).all()
    new = (optax.apply_updates(state.params, updates), opt_state, per_video)
    old = (state.params, state.opt_state, state.per_video)
    params, opt_state, per_video = jax.tree.map(lambda a, b: jnp.where(finite, a, b), new, old)
    seen = jnp.where(finite, loss, state.smooth_loss)
    share = jnp.maximum(0.02, 1 / (state.step + 1))
    smooth = state.smooth_loss + share * (seen - state.smooth_loss)
    skipped = state.skipped + ~finite
    state = TrainState(state.step + 1, params, opt_state, per_video, skipped, smooth)
    report = report | {'smooth_loss': smooth, 'grad_norm': norm}
    return state, report | {'finite': finite, 'skipped': skipped}

  return train_step
