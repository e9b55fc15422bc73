"""Reinforcement: captions that earn more than a baseline become likelier, others less likely.

The model's own samples are rewarded as wholes (Rennie et al. 2017): with the advantage A of a
sample w over its baseline, the loss is the mean over words of -A log p(w_t | w_<t), so that its
gradient is REINFORCE's. Sampling, baseline, rewards and update are one compiled step.
"""

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax.data.vocabulary import EOS, PAD, Vocabulary
from vidcap_jax.decoding.constraints import WORDS_ONLY, constrain
from vidcap_jax.decoding.unroll import Unrolled, greedy, sample, sample_on_tape, teacher_forcing
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner, Inputs, Noise, bind
from vidcap_jax.objectives.cross_entropy import caption_loss, own_word_ratio, token_log_probs
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.rewards import HOST_REWARDS, REWARDS, check_rewards, score
from vidcap_jax.rewards.references import make_references

Array = jax.Array

BASELINES = ('greedy', 'others', 'none')
GRADIENTS = ('tape', 'replay')


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


def draw(captioner: Captioner, inputs: Inputs, key: Array, K: int, L: int) -> Array:
  """K captions (B, K, L) of each video, drawn from the model under dropout.

  Args:
    captioner: not to be differentiated.
    key: of this step.
  """
  draws, noise = _random(captioner, inputs, key, K, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)
  return sample(captioner, memory, draws, noise=noise.steps, train=True).tokens


def replay(
  captioner: Captioner, inputs: Inputs, key: Array, tokens: Array, parts: int = 1
) -> tuple[Array, Array]:
  """How likely the model was to ``draw`` tokens (B, K, L) with this key, by teacher forcing.

  Args:
    parts: the videos are read in so many parts one after another, and once more for the gradient of
      each: less memory for more time. It divides B.

  Returns:
    log_prob (B, K, L) of each token, anything at PAD; draw_log_prob (B, K, L) of what the model
    drew beside words (hard attention), zeros for most.
  """
  _, noise = _random(captioner, inputs, key, *tokens.shape[1:])

  def read(inputs, noise, tokens):
    memory = captioner.encode(inputs, noise.encoder, train=True)
    unrolled = teacher_forcing(captioner, memory, tokens, noise.steps, train=True)
    return log_probs(captioner, unrolled, tokens)

  if parts == 1:
    return read(inputs, noise, tokens)
  progress = inputs.progress

  def read_part(part):
    inputs, noise, tokens = part
    return read(dataclasses.replace(inputs, progress=progress), noise, tokens)

  videos = (dataclasses.replace(inputs, progress=None), noise.encoder, tokens)
  (inputs, encoder, tokens), steps = (
    jax.tree.map(functools.partial(_in_parts, parts, axis), tree)
    for axis, tree in enumerate((videos, noise.steps))
  )
  made = jax.lax.map(jax.checkpoint(read_part), (inputs, Noise(encoder, steps), tokens))
  whole = lambda x: jnp.moveaxis(x, 0, 1).reshape(-1, *x.shape[2:])  # noqa: E731
  log_prob, draw_log_prob = map(whole, made)
  return log_prob, draw_log_prob


def _in_parts(parts: int, axis: int, x: Array) -> Array:
  """Splits the videos on an axis of x into parts, which come first.

  A part has every parts-th video: of each device's videos as many.
  """
  x = x.reshape(*x.shape[:axis], -1, parts, *x.shape[axis + 1 :])
  return jnp.moveaxis(x, axis + 1, 0)


def draw_on_tape(
  captioner: Captioner, inputs: Inputs, key: Array, K: int, L: int
) -> tuple[Array, Array, Array]:
  """``draw`` and ``replay`` in one: the states of the sampling are kept to be differentiated."""
  draws, noise = _random(captioner, inputs, key, K, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)
  tokens, unrolled = sample_on_tape(captioner, memory, draws, noise.steps)
  return tokens, *log_probs(captioner, unrolled, tokens)


def _random(
  captioner: Captioner, inputs: Inputs, key: Array, K: int, L: int
) -> tuple[Array, Noise]:
  """A number for each word (L, B, K), and the model's noise."""
  noise_key, draw_key = jax.random.split(key)
  draws = jax.random.uniform(draw_key, (L, inputs.batch_size, K))
  return draws, captioner.noise(noise_key, inputs, K, L)


def log_probs(captioner: Captioner, unrolled: Unrolled, tokens: Array) -> tuple[Array, Array]:
  """Of tokens (B, K, L) and of the draws beside them, as ``replay`` returns them.

  The vocabulary product is taken over all words at once. As the sampler never draws ``<UNK>`` and
  the like, the other words' probabilities sum to 1.
  """
  hidden = jnp.moveaxis(unrolled.hidden, 0, 2)  # (B, K, L, H)
  logits = captioner.logits(hidden.reshape(-1, hidden.shape[-1]))
  log_prob = token_log_probs(constrain(WORDS_ONLY, logits), tokens.reshape(-1))
  log_prob = log_prob.reshape(tokens.shape)
  if unrolled.draw_log_prob is None:
    return log_prob, jnp.zeros_like(log_prob)
  return log_prob, jnp.moveaxis(unrolled.draw_log_prob, 0, 2).astype(log_prob.dtype)


def greedy_captions(captioner: Captioner, inputs: Inputs, L: int) -> Array:
  """What the model says by itself, without dropout: (B, 1, L)."""
  memory = captioner.encode(dataclasses.replace(inputs, progress=None), None, train=False)
  return greedy(captioner, memory, L).tokens


def statistics(tokens: Array, log_prob: Array, used: Array) -> dict[str, Array]:
  """What samples (B, K, L) of the videos in use (B,) are like.

  Returns:
    Means over samples: words, share that ended, share of different captions in the batch; and the
    entropy of a word's distribution, estimated by minus its log-probability.
  """
  dtype = log_prob.dtype
  there = used[:, None] & (tokens != PAD).any(axis=-1)  # (B, K)
  count = jnp.maximum(there.sum(dtype=dtype), 1)
  mean = lambda x: jnp.where(there, x.astype(dtype), 0).sum() / count  # noqa: E731
  is_word = (tokens != PAD) & there[..., None]
  rows = tokens.reshape(-1, tokens.shape[-1])
  same = (rows[:, None] == rows[None]).all(axis=-1) & there.reshape(1, -1)
  first = ~jnp.tril(same, -1).any(axis=-1).reshape(there.shape)
  return {
    'words': mean((is_word & (tokens != EOS)).sum(axis=-1)),
    'ended': mean((tokens == EOS).any(axis=-1)),
    'distinct': mean(first),
    'entropy': jnp.where(is_word, -log_prob, 0).sum() / jnp.maximum(is_word.sum(dtype=dtype), 1),
  }


def make(config: ConfigDict, module: nn.Module, tokens_per_step: float | None) -> Objective:
  """``objective.rewards`` of ``objective.samples`` captions of each video, less their baseline.

  The baseline is the reward of the model's greedy caption, the mean of the video's other samples
  ('others'), or 0 ('none'). To it ``objective.cross_entropy`` times the cross entropy of the
  batch's captions is added.

  Raises:
    ConfigError: settings that make no sense together, or training that would begin from nothing.
  """
  check(config)
  o = config.objective
  K, weights = o.samples, {name: weight for name, weight in o.rewards.items() if weight}
  on_device = tuple(name for name in weights if name in REWARDS)
  on_host = tuple(name for name in weights if name not in REWARDS)

  def sampling(params, batch, inputs, key):
    L = batch['captions'].shape[-1]
    return draw(bind(module, params), inputs, jax.random.split(key)[0], K, L)

  def baseline_captions(params, batch, inputs, key):
    return greedy_captions(bind(module, params), inputs, batch['captions'].shape[-1])

  def loss(params, batch, inputs, key, epoch, kept):
    sample_key, xe_key = jax.random.split(key)
    captioner, still = bind(module, params), bind(module, jax.lax.stop_gradient(params))
    L, drawn = batch['captions'].shape[-1], batch.get('drawn', {})

    def rewards(tokens, side):  # name -> (B, K or 1)
      made = score(on_device, tokens, batch['tables'], batch['video_index'], count_eos=o.count_eos)
      return made | {name: drawn[f'{name} of {side}'] for name in on_host}

    if o.gradient == 'tape' and not drawn:
      tokens, log_prob, draws = draw_on_tape(captioner, inputs, sample_key, K, L)
    else:
      tokens = drawn['samples'] if drawn else draw(still, inputs, sample_key, K, L)
      log_prob, draws = replay(captioner, inputs, sample_key, tokens, o.micro_batches)
    parts = rewards(tokens, 'samples')
    reward = total(parts, weights)  # (B, K)
    baseline = jnp.zeros_like(reward)
    if o.baseline == 'greedy':
      own = drawn['greedy'] if drawn else greedy_captions(still, inputs, L)
      baseline = jnp.broadcast_to(total(rewards(own, 'greedy'), weights), reward.shape)
    elif o.baseline == 'others':
      baseline = mean_of_others(reward)
    used = batch['video_index'] >= 0
    tokens = jnp.where(used[:, None, None], tokens, PAD)
    words = jnp.maximum((tokens != PAD).sum(dtype=reward.dtype), 1)
    value = policy_loss(log_prob + draws, tokens, reward - baseline) / words
    videos = jnp.maximum(used.sum(dtype=reward.dtype), 1) * K
    mean = lambda x: jnp.where(used[:, None], x, 0).sum() / videos  # noqa: E731
    report = {'reward': mean(reward), 'baseline': mean(baseline)}
    report |= {f'reward_{name}': mean(part) for name, part in parts.items()}
    report |= statistics(tokens, log_prob, used)
    if o.cross_entropy:
      xe, count = caption_loss(
        captioner,
        inputs,
        batch['captions'],
        xe_key,
        smoothing=config.train.label_smoothing,
        own_words=own_word_ratio(config.train.scheduled_sampling, epoch),
      )
      xe /= jnp.maximum(count, jnp.ones_like(count))
      value += o.cross_entropy * xe
      report['cross_entropy'] = xe
    bad = (report['reward'] < o.collapse.reward) | (report['ended'] < o.collapse.ended)
    kept = {'collapsed': jnp.where(bad, kept['collapsed'] + 1, 0)}
    return value, (report | {'loss': value, 'collapsed': kept['collapsed']}, kept)

  def tables(captions: Sequence[Sequence[str]], vocabulary: Vocabulary):
    return make_references(captions, vocabulary, count_eos=o.count_eos)

  draws = {'samples': sampling}
  if o.baseline == 'greedy':
    draws['greedy'] = baseline_captions

  def host(captions: Sequence[Sequence[str]], vocabulary: Vocabulary):
    programs = {name: HOST_REWARDS[name](captions, vocabulary) for name in on_host}

    def look(drawn, rows):
      return {
        f'{name} of {side}': program(tokens(), rows)
        for side, tokens in drawn.items()
        for name, program in programs.items()
      }

    return look

  def stop(report: Mapping[str, float]) -> str:
    if report['collapsed'] < o.collapse.steps:
      return ''
    return (
      f'samples have collapsed: for {report["collapsed"]:.0f} steps they earned less than '
      f'objective.collapse.reward={o.collapse.reward} or fewer than '
      f'objective.collapse.ended={o.collapse.ended} of them ended (now {report["reward"]:.3f} and '
      f'{report["ended"]:.3f}). Lower optimizer.learning_rate, or start from a better checkpoint'
    )

  kept = lambda videos, captions: {'collapsed': jnp.int32(0)}  # noqa: E731
  if not on_host:
    return Objective(loss, kept, tables, stop=stop)
  return Objective(loss, kept, tables, draws, host, stop)


def total(parts: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
  """The weighted sum of rewards."""
  return functools.reduce(jnp.add, (weights[name] * part for name, part in parts.items()))


def check(config: ConfigDict) -> None:
  """ConfigError for settings that make no sense together; see ``make``."""
  o = config.objective
  check_rewards(o.rewards)
  for name, known in (('baseline', BASELINES), ('gradient', GRADIENTS)):
    if o[name] not in known:
      raise ConfigError(f'unknown objective.{name} {o[name]!r}; known: {", ".join(known)}')
  if o.samples < 1 or (o.baseline == 'others' and o.samples < 2):
    raise ConfigError(
      f'objective.samples is {o.samples}; baseline {o.baseline!r} needs at least '
      f'{2 if o.baseline == "others" else 1}'
    )
  if o.collapse.steps < 1:
    raise ConfigError(f'objective.collapse.steps={o.collapse.steps}: must be at least 1')
  if not 0 <= o.cross_entropy < math.inf:
    raise ConfigError(f'objective.cross_entropy={o.cross_entropy}: 0 or more, and finite')
  if o.micro_batches > 1 and o.gradient != 'replay':
    raise ConfigError("objective.micro_batches needs objective.gradient='replay'")
  if o.micro_batches < 1 or config.train.batch_size % o.micro_batches:
    raise ConfigError(
      f'objective.micro_batches must divide train.batch_size={config.train.batch_size}, got '
      f'{o.micro_batches}'
    )
  if config.data.length_buckets:
    raise ConfigError(
      'samples are as long as captions may be: data.length_buckets must be () for objective '
      'self_critical, which also keeps batches from being grouped by caption length'
    )
  if not config.train.init_from and not o.from_scratch:
    raise ConfigError(
      'reinforcement starts from a trained model: set train.init_from to a stage or checkpoint, '
      'or objective.from_scratch=True if it is meant to begin with random captions'
    )
