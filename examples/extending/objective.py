"""A new objective: the focal loss, in which easy words count less (Lin et al., ICCV 2017)."""

import dataclasses

import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import bind
from vidcap_jax.objectives.cross_entropy import token_log_probs
from vidcap_jax.objectives.objective import Objective


@dataclasses.dataclass(frozen=True)
class FocalLossConfig:
  """Settings of the focal loss.

  Attributes:
    gamma: how much less easy words count; 0: cross entropy.
  """

  gamma: float = 2.0

  def __post_init__(self):
    if self.gamma < 0:
      raise ConfigError(f'objective.gamma is {self.gamma}; it must be 0 (cross entropy) or more')


def make(
  settings: FocalLossConfig, config: ConfigDict, module: nn.Module, tokens_per_step: float | None
) -> Objective:
  """The focal loss -(1 - p)^gamma log p of each word."""

  def loss(params, batch, inputs, key, epoch, state):
    captioner = bind(module, params)
    targets = batch['captions']  # (B, S, L), PAD after the end
    _, S, L = targets.shape
    noise = captioner.noise(key, inputs, S, L)
    memory = captioner.encode(inputs, noise.encoder, train=True)
    unrolled = teacher_forcing(captioner, memory, targets, noise.steps, train=True)
    logits = captioner.logits(jnp.moveaxis(unrolled.hidden, 0, 2))  # (B, S, L, V)
    log_p = token_log_probs(logits, targets)  # (B, S, L)
    losses = -((1 - jnp.exp(log_p)) ** settings.gamma) * log_p
    mask = targets != PAD
    total, count = jnp.where(mask, losses, 0).sum(), jnp.maximum(mask.sum(), 1)
    # Divided by a constant, the sum doesn't depend on how captions are spread over batches.
    return total / (tokens_per_step or count), ({'loss': total / count}, state)

  return Objective(loss)
