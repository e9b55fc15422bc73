"""One training step, compiled: loss, gradients, update."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import struct
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.data.schema import Stream
from vidcap_jax.distributed.cpu_products import step_options
from vidcap_jax.distributed.mesh import batch_sharded_over, replicated
from vidcap_jax.models.captioner import Inputs, init_params
from vidcap_jax.models.streams import to_inputs
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.training.optimizer import keeps_finite

Array = jax.Array


@struct.dataclass
class TrainState:
  """What training changes from step to step.

  Attributes:
    step: int32, steps done.
    params: model parameters.
    opt_state: of the optimiser.
    objective_state: what the objective keeps from step to step.
    skipped: int32, steps so far whose update was not finite and was left out.
    smooth_loss: float32, exponential mean of the loss, for the progress line.
  """

  step: Array
  params: Any
  opt_state: Any
  objective_state: Any
  skipped: Array
  smooth_loss: Array


# Field -> its name in checkpoints, where they differ.
_SAVED_NAMES = {'objective_state': 'kept'}


def to_saved(state: TrainState) -> dict[str, Any]:
  """The tree that a checkpoint's item ``training`` holds: the state without its parameters."""
  state = dataclasses.replace(state, params=None)
  fields = [field.name for field in dataclasses.fields(state)]
  return {_SAVED_NAMES.get(name, name): getattr(state, name) for name in fields}


def from_saved(tree: Mapping[str, Any], params: Any) -> TrainState:
  """The inverse of ``to_saved``, with the parameters of the checkpoint."""
  fields = [field.name for field in dataclasses.fields(TrainState)]
  state = TrainState(**{name: tree[_SAVED_NAMES.get(name, name)] for name in fields})
  return dataclasses.replace(state, params=params)


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
  objective_state = objective.initial_state(videos, most_captions)
  zero = jnp.zeros((), jnp.int32)
  return TrainState(zero, params, optimizer.init(params), objective_state, zero, jnp.zeros(()))


def state_shardings(
  state: TrainState,
  optimizer: optax.GradientTransformation,
  params: Any,
  mesh: Mesh,
  moments: Any = None,
) -> TrainState:
  """A sharding for each array of a training state.

  Args:
    state: abstract.
    optimizer: that its ``opt_state`` is of.
    params: a sharding for each parameter; the rest, counts and the objective's, is replicated.
    moments: a sharding of the optimiser's moments of each parameter; None: that of the parameter.
  """
  everywhere = jax.tree.map(lambda _: replicated(mesh), state)
  opt_state = optax.tree.map_params(
    optimizer,
    lambda _, sharding: sharding,
    state.opt_state,
    params if moments is None else moments,
    transform_non_params=lambda _: replicated(mesh),
  )
  return everywhere.replace(params=params, opt_state=opt_state)


def replace_fixed(tree: Any, names: Sequence[str], function: Callable[[Array], Array]) -> Any:
  """A tree of a module's parameters with ``function`` of the arrays below some of its names.

  Args:
    tree: parameters, gradients or updates.
    names: of ``Objective.fixed_params``; those that the module does not have are skipped.
    function: of an array.
  """
  if not names:
    return tree
  return {k: jax.tree.map(function, v) if k in names else v for k, v in tree.items()}


def make_train_step(
  config: ConfigDict,
  objective: Objective,
  optimizer: optax.GradientTransformation,
  streams: Sequence[Stream],
  steps_per_epoch: int,
  total_steps: int,
  shardings: TrainState | None = None,
  moments: Any = None,
) -> jax.stages.Wrapped:
  """A jitted function (state, batch) -> state, report; the state given to it is used up.

  The new state is sharded as ``shardings`` says, see ``vidcap_jax.models.sharding``. ``moments``, a
  sharding for each parameter, is that of gradients and updates; None leaves it to the compiler,
  as does None for ``shardings``.

  Parameters that the objective holds fixed have gradients of exactly 0, and are not changed by the
  optimiser either (its weight decay would). An update that is not finite is left out and counted.
  Where the norm of the gradients decides (``keeps_finite``), the update is computed and selected
  in one pass over the state, since nothing has to be known of the whole update before.
  The report holds the objective's scalars, smooth_loss, grad_norm, finite and skipped.
  """
  norm_decides = keeps_finite(config.optimizer)
  mesh = None if shardings is None else jax.tree.leaves(shardings)[0].mesh

  def train_step(state, batch):
    key, inputs = key_and_inputs(config, streams, total_steps, state.step, batch)
    epoch = epoch_at(config, state.step, steps_per_epoch)

    def loss_of(params):
      params = replace_fixed(params, objective.fixed_params, jax.lax.stop_gradient)
      return objective.loss(params, batch, inputs, key, epoch, state.objective_state)

    with batch_sharded_over(mesh):
      found, grads = jax.value_and_grad(loss_of, has_aux=True)(state.params)
    _, (report, objective_state) = found
    if shardings is not None and moments is not None:
      # First as the parameters: otherwise the backward pass itself would be sharded as the moments.
      grads = jax.lax.with_sharding_constraint(grads, shardings.params)
      grads = jax.lax.with_sharding_constraint(grads, moments)
    norm = optax.tree.norm(grads)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    updates = replace_fixed(updates, objective.fixed_params, jnp.zeros_like)
    loss = report['loss']
    sizes = [loss, norm, *([] if norm_decides else [optax.tree.norm(updates)])]
    finite = jnp.isfinite(jnp.stack(sizes)).all()
    new = (optax.apply_updates(state.params, updates), opt_state, objective_state)
    old = (state.params, state.opt_state, state.objective_state)
    params, opt_state, objective_state = jax.tree.map(
      lambda a, b: jnp.where(finite, a, b), new, old
    )
    finite_loss = jnp.where(finite, loss, state.smooth_loss)
    share = jnp.maximum(0.02, 1 / (state.step + 1))
    smooth = state.smooth_loss + share * (finite_loss - state.smooth_loss)
    skipped = state.skipped + ~finite
    state = TrainState(state.step + 1, params, opt_state, objective_state, skipped, smooth)
    report = report | {'smooth_loss': smooth, 'grad_norm': norm}
    return state, report | {'finite': finite, 'skipped': skipped}

  return jax.jit(
    train_step,
    donate_argnums=0,
    out_shardings=(shardings, None),
    compiler_options=step_options(mesh, config.model.name),
  )


def make_sample_steps(
  config: ConfigDict,
  objective: Objective,
  streams: Sequence[Stream],
  total_steps: int,
  mesh: Mesh | None = None,
) -> dict[str, Callable[[Any, Array, Mapping], Array]]:
  """Jitted functions (params, step, batch) -> arrays (B, …), one for each of the objective's
  ``device_samples``, with the key and inputs that the training step of that number has.
  Batches are sharded over ``mesh``, or are all on one device."""

  def make(sample):
    @jax.jit
    def sample_step(params, step, batch):
      key, inputs = key_and_inputs(config, streams, total_steps, step, batch)
      with batch_sharded_over(mesh):
        return sample(params, batch, inputs, key)

    return sample_step

  return {name: make(sample) for name, sample in objective.device_samples.items()}


def epoch_at(config: ConfigDict, step: Array, steps_per_epoch: int) -> Array:
  """The epoch of a step, with a fraction; ``train.first_epoch`` at the start of the stage."""
  return config.train.get('first_epoch', 0.0) + step / steps_per_epoch


def progress_at(config: ConfigDict, step: Array, total_steps: int) -> Array:
  """``Inputs.progress`` at a step, from ``train.annealed``."""
  first, last = config.train.get('annealed', (0.0, 1.0))
  return first + (last - first) * (step / total_steps)


def key_and_inputs(
  config: ConfigDict, streams: Sequence[Stream], total_steps: int, step: Array, batch: Mapping
) -> tuple[Array, Inputs]:
  """The key of a step, from which all its random numbers are made, and its inputs."""
  key = jax.random.fold_in(jax.random.key(config.seed), step)
  inputs = to_inputs(batch, streams, config.data.standardise)
  return key, dataclasses.replace(inputs, progress=progress_at(config, step, total_steps))
