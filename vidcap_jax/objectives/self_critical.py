"""Reinforcement: captions that earn more than a baseline become likelier, others less likely.

The model's own samples are rewarded as wholes (Rennie et al. 2017): with the advantage A of a
sample w over its baseline, the loss is the mean over words of -A log p(w_t | w_<t), so that its
gradient is REINFORCE's. Sampling, baseline, rewards and update are one compiled step.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.data.vocabulary import EOS, PAD, SPECIAL, Vocabulary
from vidcap_jax.evaluation.java import find_java
from vidcap_jax.evaluation.programs import of_config
from vidcap_jax.evaluation.zero_scores import zero_scores
from vidcap_jax.models.captioner import Captioner, Inputs, bind, encoder_params
from vidcap_jax.objectives import sampling
from vidcap_jax.objectives.cross_entropy import caption_loss, own_word_ratio, read_sampling
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.objectives.self_critical_settings import SelfCriticalConfig, check
from vidcap_jax.objectives.word_log_probs import bytes_limit
from vidcap_jax.rewards import HOST_REWARDS, REWARDS, score
from vidcap_jax.rewards.references import References, make_references

Array = jax.Array


def policy_loss(log_prob: Array, tokens: Array, advantage: Array) -> Array:
  """-A log p summed over the words of captions, EOS included.

  Args:
    log_prob: (…, L) of each word.
    tokens: (…, L); PAD counts for nothing.
    advantage: (…,); gets no gradient.
  """
  advantage = jax.lax.stop_gradient(advantage)[..., None]
  terms = -advantage * jnp.where(tokens != PAD, log_prob, jnp.zeros_like(log_prob))
  return terms.sum()


def mean_of_others(reward: Array) -> Array:
  """For each of a video's K samples the mean reward of the others: (…, K)."""
  K = reward.shape[-1]
  return (reward.sum(axis=-1, keepdims=True) - reward) / (K - 1)


def total(parts: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
  """The weighted sum of rewards."""
  return functools.reduce(jnp.add, (weights[name] * part for name, part in parts.items()))


def make(
  settings: SelfCriticalConfig,
  config: ConfigDict,
  module: nn.Module,
  tokens_per_step: float | None,
) -> Objective:
  """``objective.rewards`` of ``objective.samples`` captions of each video, less their baseline.

  The baseline is the reward of the model's greedy caption, the mean of the video's other samples
  ('others'), or 0 ('none'). To it ``objective.cross_entropy`` times the cross entropy of the
  batch's captions is added.

  Raises:
    ConfigError: settings that make no sense together, or training that would begin from nothing.
  """
  check(settings, config)
  parts = _SelfCritical(settings, config, module)
  objective = Objective(
    parts.loss,
    _initial_state,
    parts.tables,
    stop=parts.stop,
    notes=parts.notes,
    fixed_params=encoder_params(module) if settings.encoder == 'fixed' else (),
  )
  if not parts.on_host:
    return objective
  return dataclasses.replace(
    objective, device_samples=parts.device_samples(), host_reward=parts.host_reward
  )


def _initial_state(videos: int, captions: int) -> dict[str, Array]:
  """How many steps one after the other samples have been collapsed."""
  return {'collapsed': jnp.int32(0)}


@dataclasses.dataclass(frozen=True)
class _SelfCritical:
  """The functions of the objective, see ``Objective``."""

  settings: SelfCriticalConfig
  config: ConfigDict
  module: nn.Module

  @functools.cached_property
  def weights(self) -> dict[str, float]:
    """The rewards that count."""
    return {name: weight for name, weight in self.settings.rewards.items() if weight}

  @functools.cached_property
  def on_host(self) -> tuple[str, ...]:
    """The rewards that are computed on the host, outside the compiled step."""
    return tuple(name for name in self.weights if name not in REWARDS)

  @property
  def meteor_program(self) -> str:
    """What computes METEOR, one of ``java.PROGRAMS``."""
    return of_config(self.config.eval).meteor

  def loss(self, params, batch, inputs, key, epoch, state):
    """The policy's loss, and the cross entropy's where it has a weight."""
    settings = self.settings
    sample_key, xe_key = jax.random.split(key)
    captioner = bind(self.module, params)
    fixed = bind(self.module, jax.lax.stop_gradient(params))
    tokens, log_prob, draw_log_prob = self._sample(captioner, fixed, batch, inputs, sample_key)
    parts = self._rewards(tokens, batch, 'samples')
    reward = total(parts, self.weights)  # (B, K)
    baseline = self._baseline(reward, fixed, batch, inputs)
    used = batch['video_index'] >= 0
    tokens = jnp.where(used[:, None, None], tokens, PAD)
    words = jnp.maximum((tokens != PAD).sum(dtype=reward.dtype), 1)
    value = policy_loss(log_prob + draw_log_prob, tokens, reward - baseline) / words
    report = _mean_rewards(reward, baseline, parts, used)
    report |= sampling.statistics(tokens, log_prob, used)
    if settings.cross_entropy:
      xe = self._cross_entropy(captioner, batch, inputs, xe_key, epoch)
      value += settings.cross_entropy * xe
      report['cross_entropy'] = xe
    collapse = settings.collapse
    collapsed = (report['reward'] < collapse.reward) | (report['ended'] < collapse.ended)
    state = {'collapsed': jnp.where(collapsed, state['collapsed'] + 1, 0)}
    return value, (report | {'loss': value, 'collapsed': state['collapsed']}, state)

  def _sample(
    self, captioner: Captioner, fixed: Captioner, batch: Mapping, inputs: Inputs, key: Array
  ) -> tuple[Array, Array, Array]:
    """Samples (B, K, L) and their log-probabilities, see ``sampling.replay``.

    Args:
      captioner: the model with the parameters to differentiate.
      fixed: the same, not to be differentiated.
      batch: holds the samples where ``host_reward`` has scored them.
      inputs, key: of the step.
    """
    K, L = self.settings.samples, batch['captions'].shape[-1]
    captioner, fixed = self._tempered(captioner), self._tempered(fixed)
    limit = bytes_limit(self.config)
    if self.settings.gradient == 'tape' and 'drawn' not in batch:
      return sampling.sample_captions_on_tape(captioner, inputs, key, K, L, limit)
    if 'drawn' in batch:
      tokens = batch['drawn']['samples']
    else:
      tokens = sampling.sample_captions(fixed, inputs, key, K, L)
    parts = self.settings.micro_batches
    return tokens, *sampling.replay(captioner, inputs, key, tokens, parts, limit)

  def _tempered(self, captioner: Captioner) -> Captioner:
    return sampling.tempered(captioner, self.settings.temperature)

  def _rewards(self, tokens: Array, batch: Mapping, kind: str) -> dict[str, Array]:
    """Rewards by name of captions, (B, K or 1) each; ``kind`` is 'samples' or 'greedy'."""
    on_device = tuple(name for name in self.weights if name in REWARDS)
    count_eos = self.settings.count_eos
    rewards = score(on_device, tokens, batch['tables'], batch['video_index'], count_eos=count_eos)
    return rewards | {name: batch['drawn'][f'{name} of {kind}'] for name in self.on_host}

  def _baseline(self, reward: Array, fixed: Captioner, batch: Mapping, inputs: Inputs) -> Array:
    """What is subtracted from the rewards (B, K) of samples."""
    if self.settings.baseline == 'others':
      return mean_of_others(reward)
    if self.settings.baseline == 'none':
      return jnp.zeros_like(reward)
    if 'drawn' in batch:
      tokens = batch['drawn']['greedy']
    else:
      tokens = self._greedy(fixed, batch, inputs)
    rewards = self._rewards(tokens, batch, 'greedy')
    return jnp.broadcast_to(total(rewards, self.weights), reward.shape)

  def _greedy(self, captioner: Captioner, batch: Mapping, inputs: Inputs) -> Array:
    """Greedy captions (B, 1, L), of the distribution that the samples are drawn from."""
    # Runs begun before this key existed go on with the baseline that they have had: evaluation's.
    train = 'annealed' in self.config.train
    return sampling.greedy_captions(captioner, inputs, batch['captions'].shape[-1], train=train)

  def _cross_entropy(
    self, captioner: Captioner, batch: Mapping, inputs: Inputs, key: Array, epoch: Array
  ) -> Array:
    """The mean cross entropy of the batch's captions."""
    xe, count = caption_loss(
      captioner,
      inputs,
      batch['captions'],
      key,
      smoothing=self.config.train.label_smoothing,
      sampling_ratio=own_word_ratio(read_sampling(self.config), epoch),
      limit=bytes_limit(self.config),
    )
    return xe / jnp.maximum(count, jnp.ones_like(count))

  def tables(self, captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> References:
    """The references of all training videos."""
    return make_references(captions, vocabulary, count_eos=self.settings.count_eos)

  def device_samples(self) -> dict[str, Callable[..., Array]]:
    """What ``host_reward`` scores, computed before the step with the step's own key."""

    def samples(params, batch, inputs, key):
      captioner, sample_key = self._tempered(bind(self.module, params)), jax.random.split(key)[0]
      K, L = self.settings.samples, batch['captions'].shape[-1]
      return sampling.sample_captions(captioner, inputs, sample_key, K, L)

    def greedy(params, batch, inputs, key):
      return self._greedy(bind(self.module, params), batch, inputs)

    if self.settings.baseline == 'greedy':
      return {'samples': samples, 'greedy': greedy}
    return {'samples': samples}

  def host_reward(
    self, captions: Sequence[Sequence[str]], vocabulary: Vocabulary
  ) -> Callable[..., dict]:
    """Rewards that are computed on the host."""
    chosen = self.meteor_program
    programs = {name: HOST_REWARDS[name](captions, vocabulary, chosen) for name in self.on_host}

    def compute(samples, rows):
      return {
        f'{name} of {kind}': program(tokens(), rows)
        for kind, tokens in samples.items()
        for name, program in programs.items()
      }

    return compute

  def notes(self, captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> list[str]:
    """Lines that name the rewards that are 0 for any samples, and METEOR where Java is missing."""
    end = [SPECIAL[EOS]] if self.settings.count_eos else []
    zero = zero_scores(captions, lambda caption: vocabulary.tokenize(caption) + end)
    without_java = self.on_host and self.meteor_program == 'auto' and not find_java()
    note = 'note: no Java was found, so the reward meteor is computed in Python (the same values)'
    return ([note] if without_java else []) + [
      f'warning: objective.rewards.{reward} is 0 for any caption: {zero[score]}; samples are not '
      'improved by it'
      for reward, score in (('cider', 'CIDEr'), ('bleu4', 'BLEU_4'))
      if reward in self.weights and score in zero
    ]

  def stop(self, report: Mapping[str, float]) -> str:
    """An explanation once samples have been collapsed for long enough, else ''."""
    collapse = self.settings.collapse
    if report['collapsed'] < collapse.steps:
      return ''
    return (
      f'samples have collapsed: for {report["collapsed"]:.0f} steps they earned less than '
      f'objective.collapse.reward={collapse.reward} or fewer than '
      f'objective.collapse.ended={collapse.ended} of them ended (now {report["reward"]:.3f} and '
      f'{report["ended"]:.3f}). Lower optimizer.learning_rate, or start from a better checkpoint'
    )


def _mean_rewards(
  reward: Array, baseline: Array, parts: Mapping[str, Array], used: Array
) -> dict[str, Array]:
  """Means over the samples (B, K) of the videos in use (B,), for the log."""
  count = jnp.maximum(used.sum(dtype=reward.dtype), 1) * reward.shape[1]
  mean = lambda x: jnp.where(used[:, None], x, 0).sum() / count  # noqa: E731
  report = {'reward': mean(reward), 'baseline': mean(baseline)}
  return report | {f'reward_{name}': mean(part) for name, part in parts.items()}
