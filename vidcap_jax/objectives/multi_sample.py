"""The multi-sample bound for captioners that draw at random (dualAFR, equations 12-16).

Of K independent runs over a caption Y, each with draws m_k of its own, the bound is log of the mean
of p(Y | m_k). Its gradient has a part through the words and one through the draws, where each
run's signal is measured against the mean of the others (leave-one-out baselines). Everything
stays in logarithms: p itself is near e^-900 for a caption of twenty words early in training.
"""

import dataclasses

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner, Inputs, bind
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.objectives.word_log_probs import bytes_limit, log_probs_of

Array = jax.Array


def bound(log_p: Array) -> Array:
  """Equation 12's L: log 1/K sum_k p_k of log p (…, K): (…,). Its gradient is omega_k."""
  return jax.nn.logsumexp(log_p, axis=-1) - _log_count(log_p)


def log_geometric_means(log_p: Array) -> Array:
  """Equation 16: log f, for each k the mean of the others' log p: (…, K)."""
  K = log_p.shape[-1]
  others = ~jnp.eye(K, dtype=bool).reshape((1,) * (log_p.ndim - 1) + (K, K))
  masked = jnp.where(others, log_p[..., None, :], jnp.zeros_like(log_p[..., None, :]))
  return masked.sum(axis=-1) / (K - 1)


def signals(log_p: Array) -> Array:
  """Equation 15: L-hat of each k, the bound less the bound with p_k replaced by f: (…, K)."""
  # Differences from the largest are small numbers, so that float32 keeps them.
  log_p = log_p - log_p.max(axis=-1, keepdims=True)
  K = log_p.shape[-1]
  own = jnp.eye(K, dtype=bool).reshape((1,) * (log_p.ndim - 1) + (K, K))
  replaced = jnp.where(own, log_geometric_means(log_p)[..., None], log_p[..., None, :])
  return bound(log_p)[..., None] - bound(replaced)


def score_term(log_p: Array, log_p_draws: Array) -> Array:
  """sum_k L-hat_k log p(m_k): (…,). Its gradient is equation 14's part through the draws.

  Args:
    log_p: (…, K) log p(Y | m_k); gets no gradient from here.
    log_p_draws: (…, K) log p(m_k).
  """
  return (jax.lax.stop_gradient(signals(log_p)) * log_p_draws).sum(axis=-1)


def multi_sample_loss(
  captioner: Captioner, inputs: Inputs, targets: Array, key: Array, K: int, limit: int = 0
) -> tuple[Array, Array]:
  """Minus the bound of captions (B, S, L), with dropout, summed over captions.

  Rows are captions times K runs, all over the same memory; each run has its own dropout.

  Args:
    captioner: the model with the parameters to differentiate; its steps make random choices.
    key: of this step; all randomness comes from it.
    K: runs of each caption.
    limit: see ``word_log_probs.log_probs_of``.

  Returns:
    Minus the bound, and the scalar whose gradient is minus equation 14; the model's own losses
    (``Extras.aux``), averaged over runs, are added to both.

  Raises:
    ConfigError: the model makes no random choices.
  """
  B, S, L = targets.shape
  rows = jnp.repeat(targets, K, axis=1)  # (B, S K, L), the runs of a caption side by side
  noise = captioner.noise(key, inputs, S * K, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)
  unrolled = teacher_forcing(captioner, memory, rows, noise.steps, train=True)
  if unrolled.draw_log_prob is None:
    raise ConfigError(
      'objective multi_sample is for a model that draws at random in training (dual_afr with '
      "choice 'hard'); this one does not: use cross_entropy"
    )
  words = jnp.moveaxis(rows, -1, 0)  # (L, B, S K)
  log_prob = jnp.moveaxis(log_probs_of(captioner, unrolled.hidden, rows, limit=limit), -1, 0)

  def of_runs(x):  # (L, B, S K) summed over words: (B, S, K)
    return jnp.where(words != PAD, x, jnp.zeros_like(x)).sum(axis=0).reshape(B, S, K)

  log_p, log_p_draws = of_runs(log_prob), of_runs(unrolled.draw_log_prob)
  aux = (of_runs(unrolled.aux).sum() / K).astype(log_p.dtype)
  total = aux - bound(log_p).sum()
  return total, total - score_term(log_p, log_p_draws).sum()


@dataclasses.dataclass(frozen=True)
class MultiSampleConfig:
  """Settings of the objective ``multi_sample``.

  Attributes:
    draws: K, runs over each caption; at least 2.
  """

  draws: int = 10

  def __post_init__(self):
    if self.draws < 2:
      raise ConfigError(f'objective.draws is {self.draws}; leave-one-out baselines need at least 2')


def make(
  settings: MultiSampleConfig, config: ConfigDict, module: nn.Module, tokens_per_step: float | None
) -> Objective:
  """The multi-sample bound with ``objective.draws`` runs of each caption, per word.

  Raises:
    ConfigError: the config asks for label smoothing or scheduled sampling.
  """
  K = settings.draws
  if config.train.label_smoothing or config.train.scheduled_sampling.name != 'off':
    raise ConfigError(
      'objective multi_sample bounds the likelihood of the captions as they are: '
      "train.label_smoothing must be 0 and train.scheduled_sampling.name 'off'"
    )

  def loss(params, batch, inputs, key, epoch, state):
    captioner, captions = bind(module, params), batch['captions']
    total, surrogate = multi_sample_loss(captioner, inputs, captions, key, K, bytes_limit(config))
    count = jnp.maximum((captions != PAD).sum(dtype=total.dtype), 1)
    return surrogate / (tokens_per_step or count), ({'loss': total / count}, state)

  return Objective(loss)


def _log_count(x: Array) -> Array:
  return jnp.log(jnp.asarray(x.shape[-1], x.dtype))
