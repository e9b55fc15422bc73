"""Captions sampled from a model, how likely it was to make them, and what they are like."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from vidcap_jax.data.vocabulary import EOS, PAD
from vidcap_jax.decoding.constraints import WORDS_ONLY, constrain
from vidcap_jax.decoding.unroll import Unrolled, greedy, sample, sample_on_tape, teacher_forcing
from vidcap_jax.models.captioner import Captioner, Inputs, Noise
from vidcap_jax.objectives.word_log_probs import log_probs_of

Array = jax.Array


def sample_captions(captioner: Captioner, inputs: Inputs, key: Array, K: int, L: int) -> Array:
  """K captions (B, K, L) of each video, drawn from the model under dropout.

  Args:
    captioner: not to be differentiated.
    key: of this step.
  """
  draws, noise = _random(captioner, inputs, key, K, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)
  return sample(captioner, memory, draws, noise=noise.steps, train=True).tokens


def tempered(captioner: Captioner, temperature: float) -> Captioner:
  """The captioner with its logits divided by a temperature: samples and their log-probabilities are
  those of softmax(logits / temperature), and greedy captions are the same."""
  if temperature == 1:
    return captioner
  rebind = captioner.rebind
  return dataclasses.replace(
    captioner,
    logits=lambda hidden: captioner.logits(hidden) / temperature,
    rebind=rebind and (lambda params: tempered(rebind(params), temperature)),
  )


def replay(
  captioner: Captioner, inputs: Inputs, key: Array, tokens: Array, parts: int = 1, limit: int = 0
) -> tuple[Array, Array]:
  """Log-probabilities of what ``sample_captions`` gives with this key, by teacher forcing.

  Args:
    captioner: the model with the parameters to differentiate.
    inputs, key: those that the captions were sampled with.
    tokens: (B, K, L), the sampled captions.
    parts: number of parts into which the videos are split, one computed after another and once more
      for its gradient: less memory for more time. It divides B.
    limit: see ``word_log_probs.log_probs_of``.

  Returns:
    log_prob (B, K, L) of each token, undefined at PAD; draw_log_prob (B, K, L) of the model's other
    random choices (hard attention), zeros for models without any.
  """
  _, noise = _random(captioner, inputs, key, *tokens.shape[1:])

  def read(inputs, noise, tokens):
    memory = captioner.encode(inputs, noise.encoder, train=True)
    unrolled = teacher_forcing(captioner, memory, tokens, noise.steps, train=True)
    return log_probs(captioner, unrolled, tokens, limit)

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
  """Splits the videos on an axis of x into parts; the parts are the new first axis.

  A part has every parts-th video, so that it has equally many of each device.
  """
  x = x.reshape(*x.shape[:axis], -1, parts, *x.shape[axis + 1 :])
  return jnp.moveaxis(x, axis + 1, 0)


def sample_captions_on_tape(
  captioner: Captioner, inputs: Inputs, key: Array, K: int, L: int, limit: int = 0
) -> tuple[Array, Array, Array]:
  """``sample_captions`` and ``replay`` in one: the states of the sampling are differentiated.

  Returns:
    tokens (B, K, L), log_prob and draw_log_prob as ``replay`` returns them.
  """
  draws, noise = _random(captioner, inputs, key, K, L)
  memory = captioner.encode(inputs, noise.encoder, train=True)
  tokens, unrolled = sample_on_tape(captioner, memory, draws, noise.steps)
  return tokens, *log_probs(captioner, unrolled, tokens, limit)


def _random(
  captioner: Captioner, inputs: Inputs, key: Array, K: int, L: int
) -> tuple[Array, Noise]:
  """A number for each word (L, B, K), and the model's noise."""
  noise_key, draw_key = jax.random.split(key)
  draws = jax.random.uniform(draw_key, (L, inputs.batch_size, K))
  return draws, captioner.noise(noise_key, inputs, K, L)


def log_probs(
  captioner: Captioner, unrolled: Unrolled, tokens: Array, limit: int = 0
) -> tuple[Array, Array]:
  """Log-probabilities of tokens (B, K, L) and of other random choices, as ``replay`` returns them.

  As the sampler never draws ``<UNK>`` and the like, the other words' probabilities sum to 1.
  """
  change = functools.partial(constrain, WORDS_ONLY)
  log_prob = log_probs_of(captioner, unrolled.hidden, tokens, change=change, limit=limit)
  if unrolled.draw_log_prob is None:
    return log_prob, jnp.zeros_like(log_prob)
  return log_prob, jnp.moveaxis(unrolled.draw_log_prob, 0, 2).astype(log_prob.dtype)


def greedy_captions(captioner: Captioner, inputs: Inputs, L: int, *, train: bool = True) -> Array:
  """The model's greedy captions, without dropout and other noise: (B, 1, L).

  Args:
    train: whether what is annealed is as in the step's samples, or else as in evaluation.
  """
  if not train:
    inputs = dataclasses.replace(inputs, progress=None)
  memory = captioner.encode(inputs, None, train=train)
  return greedy(captioner, memory, L, train=train).tokens


def statistics(tokens: Array, log_prob: Array, used: Array) -> dict[str, Array]:
  """Statistics of samples (B, K, L) of the videos in use (B,), for the log.

  Returns:
    Means over samples: words, share that ended, share of different captions in the batch; and the
    entropy of a word's distribution, estimated by minus its log-probability.
  """
  dtype = log_prob.dtype
  present = used[:, None] & (tokens != PAD).any(axis=-1)  # (B, K)
  count = jnp.maximum(present.sum(dtype=dtype), 1)
  mean = lambda x: jnp.where(present, x.astype(dtype), 0).sum() / count  # noqa: E731
  is_word = (tokens != PAD) & present[..., None]
  rows = tokens.reshape(-1, tokens.shape[-1])
  same = (rows[:, None] == rows[None]).all(axis=-1) & present.reshape(1, -1)
  first = ~jnp.tril(same, -1).any(axis=-1).reshape(present.shape)
  return {
    'words': mean((is_word & (tokens != EOS)).sum(axis=-1)),
    'ended': mean((tokens == EOS).any(axis=-1)),
    'distinct': mean(first),
    'entropy': jnp.where(is_word, -log_prob, 0).sum() / jnp.maximum(is_word.sum(dtype=dtype), 1),
  }
