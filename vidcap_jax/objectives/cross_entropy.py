"""Word-level cross entropy."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.config_section import read_section
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.unroll import scheduled_sampling, teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner, Inputs, bind
from vidcap_jax.objectives.objective import NoSettings, Objective
from vidcap_jax.objectives.word_log_probs import bytes_limit, log_probs_of
from vidcap_jax.objectives.word_log_probs import token_log_probs as token_log_probs

Array = jax.Array


def summed(log_prob: Array, targets: Array) -> tuple[Array, Array]:
  """Cross entropy summed over words, and the number of words, PAD left out of both.

  Dividing the global sum by the global count makes the loss independent of how captions are spread
  over devices and batches.

  Args:
    log_prob: (…,) of each target word, see ``word_log_probs``.
    targets: (…,) int32.

  Returns:
    (sum, count), scalars.
  """
  mask = targets != PAD
  total = -jnp.where(mask, log_prob, jnp.zeros_like(log_prob)).sum()
  return total, mask.sum(dtype=log_prob.dtype)


def caption_loss(
  captioner: Captioner,
  inputs: Inputs,
  targets: Array,
  key: Array,
  *,
  smoothing: float = 0.0,
  sampling_ratio: Array | None = None,
  limit: int = 0,
) -> tuple[Array, Array]:
  """The training loss of captions (B, S, L), with dropout, summed over words, and the word count.

  Args:
    captioner: the model with the parameters to differentiate.
    key: of this step; all randomness comes from it.
    smoothing, limit: see ``word_log_probs.log_probs_of``.
    sampling_ratio: scheduled sampling's ratio, a scalar; None reads the given captions only.

  Returns:
    (sum, count); the model's own losses (``Extras.aux``) are added under the word mask.

  Raises:
    ConfigError: the model makes random choices, whose distribution this loss would not train.
  """
  _, S, L = targets.shape
  noise_key, sampling_key = jax.random.split(key)
  noise = captioner.noise(noise_key, inputs, S, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)
  if sampling_ratio is None:
    unrolled = teacher_forcing(captioner, memory, targets, noise.steps, train=True)
  else:
    unrolled = scheduled_sampling(
      captioner, memory, targets, noise.steps, ratio=sampling_ratio, key=sampling_key
    )
  if unrolled.draw_log_prob is not None:
    raise ConfigError(
      'the model draws at random in training, and cross entropy gives its draws no gradient: set '
      "objective.name to 'multi_sample', or model.choice to 'soft'"
    )
  # The vocabulary product is taken over all words at once, after the scan.
  log_prob = log_probs_of(captioner, unrolled.hidden, targets, smoothing=smoothing, limit=limit)
  total, count = summed(log_prob, targets)
  aux = jnp.moveaxis(unrolled.aux, 0, 2)  # (B, S, L)
  aux = jnp.where(targets != PAD, aux, jnp.zeros_like(aux)).sum()
  return total + aux.astype(total.dtype), count


def make(
  settings: NoSettings, config: ConfigDict, module: nn.Module, tokens_per_step: float | None
) -> Objective:
  """Cross entropy of all captions, with ``train.label_smoothing`` and scheduled sampling."""
  sampling = read_sampling(config)

  def loss(params, batch, inputs, key, epoch, state):
    total, count = caption_loss(
      bind(module, params),
      inputs,
      batch['captions'],
      key,
      smoothing=config.train.label_smoothing,
      sampling_ratio=own_word_ratio(sampling, epoch),
      limit=bytes_limit(config),
    )
    mean = total / jnp.maximum(count, jnp.ones_like(count))
    value = total / tokens_per_step if tokens_per_step else mean
    return value, ({'loss': mean}, state)

  return Objective(loss)


@dataclasses.dataclass(frozen=True)
class ScheduledSampling:
  """Scheduled sampling: how often a step reads the model's own word (``train.scheduled_sampling``).

  Attributes:
    name: off | linear | inverse_sigmoid (STaTS).
    start_epoch: linear: the ratio is 0 before this epoch.
    every_epochs: linear: epochs from one increase to the next.
    increase: linear: what is added to the ratio each time.
    most: linear: the largest ratio.
    eta: inverse_sigmoid: 1 - eta / (eta + exp(p / eta)) with p the whole epoch.
  """

  name: str = 'off'
  start_epoch: float = 5.0
  every_epochs: float = 5.0
  increase: float = 0.05
  most: float = 0.25
  eta: float = 24.0

  def __post_init__(self):
    if self.name not in ('off', 'linear', 'inverse_sigmoid'):
      raise ConfigError(
        f'unknown train.scheduled_sampling.name {self.name!r}; known: off, linear, inverse_sigmoid'
      )


def read_sampling(config: ConfigDict) -> ScheduledSampling:
  """A stage's scheduled sampling.

  Raises:
    ConfigError: an unknown name or key.
  """
  section = config.train.scheduled_sampling
  return read_section(ScheduledSampling, section, 'train.scheduled_sampling')


def own_word_ratio(sampling: ScheduledSampling, epoch: Array) -> Array | None:
  """Scheduled sampling's ratio at an epoch (a float scalar, see ``train.first_epoch``), or None."""
  # Steps divided by the steps of an epoch may fall short of the whole number.
  floor = lambda x: jnp.floor(x + 1e-4)  # noqa: E731
  if sampling.name == 'off':
    return None
  if sampling.name == 'linear':
    times = floor((epoch - sampling.start_epoch) / sampling.every_epochs) + 1
    return jnp.clip(sampling.increase * times, 0.0, sampling.most)
  eta = sampling.eta
  return 1 - eta / (eta + jnp.exp(floor(epoch) / eta))
