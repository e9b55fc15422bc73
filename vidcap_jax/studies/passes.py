"""The passes of a training step over its videos, and that of evaluation, as tracing observes them.

A step may run the model several times: on the given captions, to sample, for a greedy baseline.
Here the functions that training and evaluation call are traced, and each call of the model's
``encode`` and ``step`` is noted. So what is reported of a pass is what it does.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from flax import linen as nn

from vidcap_jax.compilation.abstract_stage import AbstractStage
from vidcap_jax.inference.captioning import make_decoder
from vidcap_jax.models.captioner import Noise, is_captioner
from vidcap_jax.training.step import epoch_at, key_and_inputs, progress_at

TRAINING, SAMPLE, BASELINE = 'training', 'sample', 'greedy baseline'
EVALUATION = 'validation, prediction'  # both run ``decoder_fn``
REWARD = 'reward'  # of equation 20, refocused encoder
PASSES = (TRAINING, SAMPLE, BASELINE, REWARD, EVALUATION)
# Functions that run the model -> the pass that they make; others make TRAINING.
_PASS_OF = {
  'caption_loss': TRAINING,
  'multi_sample_loss': TRAINING,
  'passes_loss': TRAINING,
  'rewards': REWARD,
  'sample_captions': SAMPLE,
  'sample_captions_on_tape': SAMPLE,
  'replay': SAMPLE,
  'greedy_captions': BASELINE,
  'decoder_fn': EVALUATION,
}


@dataclasses.dataclass(frozen=True)
class Pass:
  """How the model is run.

  Attributes:
    annealed: whether ``Inputs.progress`` is that of the step, or else None: what is annealed then
      has its end value.
    train: the argument ``train`` of the model's methods.
    noise: names of the random numbers that it is given, see ``Noise``.
  """

  annealed: bool
  train: bool
  noise: tuple[str, ...]


def observe(stage: AbstractStage) -> dict[str, Pass]:
  """The passes of a training stage by name; {} for a model that makes no captions.

  Raises:
    ValueError: passes of one name differ, or the progress is not that of the step.
  """
  if not is_captioner(stage.module):
    return {}
  steps = stage.data.split.total_steps
  calls = list(_training_calls(stage, steps // 2))
  calls += _calls(_evaluation(stage), stage.state.params, stage.batch(1, 1, 2))
  middle: Any = np.int32(steps // 2)
  progress = float(progress_at(stage.config, middle, steps))
  found: dict[str, Pass] = {}
  for name in dict.fromkeys(call.name for call in calls):
    own = [call for call in calls if call.name == name]
    if any(call.progress not in (None, progress) for call in own):
      raise ValueError(f'pass {name!r} has progress {own[0].progress}, the step has {progress}')
    ways = {(call.progress is not None, call.train) for call in own}
    if len(ways) > 1:
      raise ValueError(f'calls of pass {name!r} differ in progress or train: {own}')
    noise = sorted({key for call in own for key in call.noise})
    found[name] = Pass(*ways.pop(), tuple(noise))
  return found


@dataclasses.dataclass(frozen=True)
class _Call:
  """A call of ``encode`` or ``step``; ``progress`` is that of the last ``encode``."""

  name: str
  progress: float | None
  train: bool
  noise: frozenset[str]


def _training_calls(stage: AbstractStage, step: int) -> Iterator[_Call]:
  """The calls of a step's loss, and of the samples that are scored outside of it."""
  config, objective = stage.config, stage.programs.objective
  split, streams = stage.data.split, stage.shape.streams
  state, batch = stage.step_arguments(stage.shape.length)
  # A value of NumPy, so that what is computed of it alone is a value too when the rest is traced.
  number: Any = np.int32(step)

  def loss(params, batch, objective_state):
    key, inputs = key_and_inputs(config, streams, split.total_steps, number, batch)
    epoch = epoch_at(config, number, split.steps_per_epoch)
    return objective.loss(params, batch, inputs, key, epoch, objective_state)[0]

  yield from _calls(loss, state.params, batch, state.objective_state)
  for sample in objective.device_samples.values():

    def draw(params, batch, sample=sample):
      key, inputs = key_and_inputs(config, streams, split.total_steps, number, batch)
      return sample(params, batch, inputs, key)

    yield from _calls(draw, state.params, batch)


def _evaluation(stage: AbstractStage) -> Callable:
  """What validation, evaluation and prediction run on a batch."""
  module, shape = stage.module, stage.shape
  return make_decoder(
    module, shape.streams, stage.data.vocabulary, stage.config, shape.length, stage.mesh
  )


def _calls(function: Callable, *arguments: Any) -> list[_Call]:
  """The model's calls while a function of abstract arguments is traced."""
  found: list[_Call] = []
  progress: float | None = None

  def note(method, args, kwargs, context):
    nonlocal progress
    if context.module.path == () and context.method_name in ('encode', 'step'):
      if context.method_name == 'encode':
        progress = None if args[0].progress is None else float(args[0].progress)
      noise = args[1 if context.method_name == 'encode' else 3]
      found.append(_Call(_pass_name(), progress, kwargs['train'], _names(noise)))
    return method(*args, **kwargs)

  with nn.intercept_methods(note):
    jax.eval_shape(function, *arguments)
  return found


def _names(noise: Any) -> frozenset[str]:
  """The names of the random numbers of ``Noise.encoder`` or ``Noise.steps``."""
  noise = noise.steps if isinstance(noise, Noise) else noise
  return frozenset(noise or {})


def _pass_name() -> str:
  """The pass whose function is being traced, from the functions that are being called."""
  frame: Any = sys._getframe()
  while frame is not None:
    function = frame.f_code.co_qualname.partition('.')[0]
    if frame.f_globals.get('__name__', '').startswith('vidcap_jax.') and function in _PASS_OF:
      return _PASS_OF[function]
    frame = frame.f_back
  return TRAINING
