"""Captioner and refocusing module trained together (refocused encoder, equations 17-22).

Both passes learn to caption. How much likelier the second makes a caption than the first is the
reward of the key frame between them. The loss raises the key frame's attention weight where the
reward has risen since the last epoch, and lowers it where the reward has fallen. A variant compares
it with the batch's mean reward instead (``reward_baseline``).
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding.unroll import scheduled_sampling, teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner, Inputs, bind
from vidcap_jax.models.layers.attention import at_least_float32
from vidcap_jax.objectives.cross_entropy import own_word_ratio, read_sampling, summed
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.objectives.word_log_probs import bytes_limit, log_probs_of, token_log_probs

Array = jax.Array


def reward(first: Array, second: Array) -> Array:
  """Equation 20: by how much the second pass makes captions likelier than the first.

  Args:
    first, second: log-probabilities of captions under the two passes, of any one shape.
  """
  return second - first


def key_frame_log_probs(scores: Array, mask: Array, key_frame: Array) -> tuple[Array, Array]:
  """log alpha of each video's key frame, and log(1 - alpha) without rounding 1 - alpha to 0.

  Args:
    scores: (B, T) before the softmax, finite where the mask is not set too.
    mask: (B, T).
    key_frame: (B,).

  Returns:
    (B,) each, in at least float32; both are 0, without gradient, where there is no other valid
    frame to choose or there is no key frame.
  """
  scores = at_least_float32(scores)
  is_key_frame = jnp.arange(mask.shape[1], dtype=key_frame.dtype)[None] == key_frame[:, None]
  others = mask & ~is_key_frame
  has_others = (mask & is_key_frame).any(axis=-1) & others.any(axis=-1)
  # Without other frames both sums run over all frames, so that they cancel and their gradients do.
  total = lambda frames: jax.nn.logsumexp(  # noqa: E731
    jnp.where(frames | ~has_others[:, None], scores, -jnp.inf), axis=-1
  )
  whole = total(mask)
  return total(mask & is_key_frame) - whole, total(others) - whole


def _eq19(change: Array, chosen: Array, others: Array) -> Array:
  return -change * chosen


def _eq21_printed(change: Array, chosen: Array, others: Array) -> Array:
  return -change * jnp.where(change > 0, chosen, jnp.where(change < 0, others, 0))


def _eq21(change: Array, chosen: Array, others: Array) -> Array:
  return -jnp.abs(change) * jnp.where(change > 0, chosen, jnp.where(change < 0, others, 0))


# (R_e - R_{e-1}, log alpha, log(1 - alpha)), of one shape, to the loss. As printed, equation 21
# raises alpha where the reward falls; 'eq21' is what its text describes.
REWARD_LOSSES: Mapping[str, Callable[[Array, Array, Array], Array]] = {
  'eq21': _eq21,
  'eq21_printed': _eq21_printed,
  'eq19': _eq19,
}


def passes_loss(
  captioner: Captioner,
  inputs: Inputs,
  targets: Array,
  key: Array,
  *,
  smoothing: float = 0.0,
  sampling_ratio: Array | None = None,
  limit: int = 0,
) -> tuple[Array, Array, Any]:
  """Equations 17 and 18 for captions (B, S, L), with dropout.

  Args:
    captioner: of a model whose memory has ``each_pass``.
    key, smoothing, sampling_ratio, limit: as in ``cross_entropy.caption_loss``. Both passes get
      the same noise.

  Returns:
    Sums over words (P,), pass by pass; the number of words (); the memory.
  """
  _, S, L = targets.shape
  noise_key, sampling_key = jax.random.split(key)
  noise = captioner.noise(noise_key, inputs, S, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)

  def unroll(memory):
    if sampling_ratio is None:
      return teacher_forcing(captioner, memory, targets, noise.steps, train=True).hidden
    return scheduled_sampling(
      captioner, memory, targets, noise.steps, ratio=sampling_ratio, key=sampling_key
    ).hidden

  hidden = memory.each_pass(unroll)
  log_probs = _log_probs(captioner, hidden, targets, limit, smoothing)  # (P, B, S, L)
  totals, counts = jax.vmap(summed, in_axes=(0, None))(log_probs, targets)
  return totals, counts[0], memory


def rewards(captioner: Captioner, memory: Any, targets: Array) -> Array:
  """R_e of captions (B, S, L): (B, S), teacher-forced and without dropout, not for gradients.

  Words are scored one after another: their logits are not needed again, and those of all words
  would be in memory beside those of the passes' losses.
  """
  unroll = lambda memory: teacher_forcing(captioner, memory, targets).hidden  # noqa: E731
  hidden = memory.each_pass(unroll)  # (P, L, B, S, H)

  def score(word):
    hidden, targets = word
    log_prob = token_log_probs(captioner.logits(hidden), jnp.stack([targets] * len(hidden)))
    return jnp.where(targets[None] != PAD, log_prob, 0)

  words = jnp.moveaxis(hidden, 1, 0), jnp.moveaxis(targets, -1, 0)
  first, second = jax.lax.map(score, words).sum(axis=0)
  return reward(first, second)


def _log_probs(
  captioner: Captioner, hidden: Array, targets: Array, limit: int, smoothing: float
) -> Array:
  """Hidden states (P, L, B, S, H) of all passes to (P, B, S, L), by one vocabulary product."""
  P, S = len(hidden), targets.shape[1]
  rows = jnp.concatenate([*hidden], axis=2)  # (L, B, P S, H)
  words = jnp.concatenate([targets] * P, axis=1)
  log_prob = log_probs_of(captioner, rows, words, smoothing=smoothing, limit=limit)
  return jnp.stack([log_prob[:, p * S : (p + 1) * S] for p in range(P)])


def used_captions(batch: Mapping) -> Array:
  """Which slots (B, S) of a batch hold a caption."""
  return (batch['video_index'][:, None] >= 0) & (batch['caption_index'] >= 0)


def update_rewards(table: Array, batch: Mapping, R: Array) -> tuple[Array, Array]:
  """Compares rewards with those of the captions' last visit, and stores the new ones.

  Args:
    table: (videos, captions), R_{e-1}; NaN for a caption not visited yet.
    batch: ``video_index`` (B,) and ``caption_index`` (B, S), -1 for unused slots.
    R: (B, S).

  Returns:
    R_e - R_{e-1} (B, S), 0 for captions not visited yet and unused slots; the table with R_e.
  """
  rows, columns, used = batch['video_index'][:, None], batch['caption_index'], used_captions(batch)
  before = table[jnp.where(used, rows, 0), jnp.where(used, columns, 0)].astype(R.dtype)
  change = jnp.where(used & ~jnp.isnan(before), R - before, 0)
  # Unused slots are written below the last row, which is to be dropped.
  rows = jnp.where(used, rows, len(table))
  return change, table.at[rows, columns].set(R.astype(table.dtype), mode='drop')


def above_batch_mean(batch: Mapping, R: Array) -> Array:
  """R (B, S) minus its mean over the batch's captions, 0 in unused slots."""
  used = used_captions(batch)
  count = jnp.maximum(used.sum(dtype=R.dtype), 1)
  return jnp.where(used, R - jnp.where(used, R, 0).sum() / count, 0)


# What a reward is compared with.
REWARD_BASELINES = ('last_epoch', 'batch_mean')


@dataclasses.dataclass(frozen=True)
class RefocusLossConfig:
  """Settings of the objective ``refocus``.

  Attributes:
    beta: weight of the rewards' loss, equation 22; 0: both passes' cross entropy alone.
    reward_loss: eq21, as its text means it | eq21_printed | eq19.
    reward_baseline: what R_e is compared with: last_epoch, the caption's own R_{e-1}, as published
      | batch_mean, the mean of R_e over the batch. While a model learns, rewards rise wherever the
      key frames are, and R_{e-1} counts that as success; the mean does not.
  """

  beta: float = 0.03
  reward_loss: str = 'eq21'
  reward_baseline: str = 'last_epoch'

  def __post_init__(self):
    if self.reward_loss not in REWARD_LOSSES:
      raise ConfigError(
        f'unknown objective.reward_loss {self.reward_loss!r}; known: {", ".join(REWARD_LOSSES)}'
      )
    if self.reward_baseline not in REWARD_BASELINES:
      raise ConfigError(
        f'unknown objective.reward_baseline {self.reward_baseline!r}; known: '
        f'{", ".join(REWARD_BASELINES)}'
      )


def make(
  settings: RefocusLossConfig, config: ConfigDict, module: nn.Module, tokens_per_step: float | None
) -> Objective:
  """Equation 22: its sum over captions divided by their words, as the cross entropy is.

  At beta 0 no rewards are computed: both passes learn to caption. R of every caption is kept from
  one epoch to the next, if that is what it is compared with. In the first epoch there is none to
  compare with, so that it adds no loss of rewards.

  Raises:
    ConfigError: the model does not pass over the video twice.
  """
  passes = getattr(module.config, 'passes', 1)
  beta, sampling, limit = settings.beta, read_sampling(config), bytes_limit(config)
  keeps_rewards = beta > 0 and settings.reward_baseline == 'last_epoch'
  if passes != 2:
    raise ConfigError(
      f'objective.name refocus compares two passes over a video, this model makes {passes}; '
      "set model.name 'refocus' with model.passes 2, or another objective"
    )

  def loss(params, batch, inputs, key, epoch, state):
    targets = batch['captions']
    totals, count, memory = passes_loss(
      bind(module, params),
      inputs,
      targets,
      key,
      smoothing=config.train.label_smoothing,
      sampling_ratio=own_word_ratio(sampling, epoch),
      limit=limit,
    )
    words = jnp.maximum(count, jnp.ones_like(count))
    total = totals.sum()
    report = {'first_pass': totals[0] / words, 'second_pass': totals[1] / words}
    if beta:
      # The encoder has no dropout, so that its memory serves here too.
      fixed_params, fixed_memory = jax.lax.stop_gradient((params, memory))
      R = rewards(bind(module, fixed_params), fixed_memory, targets)
      if keeps_rewards:
        change, state = update_rewards(state, batch, R)
      else:
        change = above_batch_mean(batch, R)
      focus = memory.focus
      per_video = key_frame_log_probs(focus.scores, focus.mask, focus.key_frame)
      log_alphas = [jnp.broadcast_to(x[:, None], R.shape) for x in per_video]
      reward_loss = REWARD_LOSSES[settings.reward_loss](change, *log_alphas).sum()
      total += beta * reward_loss.astype(total.dtype)
      report |= {'reward': R.sum() / words, 'reward_loss': reward_loss / words}
    report['loss'] = total / words
    return total / (tokens_per_step or words), (report, state)

  def initial_state(videos, captions):
    return jnp.full((videos, captions), jnp.nan, jnp.float32) if keeps_rewards else {}

  return Objective(loss, initial_state)
