"""Beam search over one video's memory, mapped over the batch."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from vidcap_jax.data.vocabulary import BOS, EOS, PAD
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints, constrain
from vidcap_jax.decoding.unroll import Captions
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.attention import at_least_float32
from vidcap_jax.models.captioner import Captioner

Array = jax.Array


@struct.dataclass
class _Live:
  """Hypotheses that go on: K rows; a row with log_prob -inf is empty."""

  carry: Any  # leaves (1, K, …)
  tokens: Array  # (K, L)
  log_prob: Array  # (K,)


@struct.dataclass
class _Done:
  """The K best ended hypotheses so far, best first; empty rows have score -inf."""

  tokens: Array  # (K, L)
  log_prob: Array  # (K,)
  score: Array  # (K,)
  ended: Array  # (K,)


def beam_search(
  captioner: Captioner,
  memory: Any,
  L: int,
  beam: int,
  *,
  length_penalty: float = 0.0,
  n_best: int = 1,
  constraints: Constraints = WORDS_ONLY,
) -> Captions:
  """The n_best captions of every video by beam search, best first: tokens (B, n_best, L).

  At each step the ``beam`` likeliest continuations of all live hypotheses are kept; those that end
  leave the beam and compete by log_prob / length ** length_penalty (length in tokens, EOS
  included). The search stops when no live hypothesis can still enter the n_best. A beam of 1 is
  greedy decoding, and a beam as wide as the number of prefixes is exhaustive search.

  Args:
    memory: from ``captioner.encode``, leaves (B, …).
    L: most tokens, EOS included; hypotheses that reach it without EOS compete unended.
    beam: K, the number of hypotheses kept.
    length_penalty: 0 ranks by log-probability; 1 by log-probability a token.
    n_best: captions returned a video, at most ``beam``.

  Raises:
    ConfigError: n_best outside 1..beam.
  """
  if not 1 <= n_best <= beam:
    raise ConfigError(f'n_best must be between 1 and the beam size {beam}, got {n_best}')

  def search(memory):
    one = jax.tree.map(lambda x: x[None], memory)  # leaves (1, …)
    return _search(captioner, one, L, beam, length_penalty, n_best, constraints)

  return jax.vmap(search)(memory)


def _search(
  captioner: Captioner,
  memory: Any,
  L: int,
  K: int,
  length_penalty: float,
  n_best: int,
  constraints: Constraints,
) -> Captions:
  """One video's search; ``memory`` leaves (1, …), results (n_best, …)."""
  carry = captioner.start(memory, K, L)
  first = captioner.embed(jnp.full((1, K), BOS, jnp.int32), None)

  def logits_of(carry, x):
    carry, hidden, _ = captioner.step(carry, x, memory, None, train=False)
    return carry, at_least_float32(captioner.logits(hidden))[0]  # (K, V)

  dtype = jax.eval_shape(logits_of, carry, first)[1].dtype
  lengths = jnp.arange(1, L + 1).astype(dtype) ** length_penalty  # (L,)
  empty = jnp.full((K,), -jnp.inf, dtype)
  blank = jnp.full((K, L), PAD, jnp.int32)
  # All rows start equal, so only the first is live.
  live = _Live(carry, blank, empty.at[0].set(0.0))
  done = _Done(blank, empty, empty, jnp.zeros((K,), bool))

  def going(state):
    t, live, done = state
    # Log-probabilities only fall, so this is the best that a live hypothesis can still reach.
    bound = live.log_prob.max() / jnp.maximum(lengths[t], lengths[-1])
    return (t < L) & (bound > done.score[n_best - 1])

  def body(state):
    t, live, done = state
    last = jnp.where(t == 0, BOS, live.tokens[:, jnp.maximum(t - 1, 0)])  # (K,)
    carry, logits = logits_of(live.carry, captioner.embed(last[None], None))
    allowed = constrain(constraints, logits, live.tokens, t)
    # The best of a row are its largest logits: only those are normalised.
    width = min(K, logits.shape[-1])
    best, word = jax.lax.top_k(allowed, width)  # (K, width)
    gain = best - jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    total = (live.log_prob[:, None] + gain).reshape(-1)
    log_prob, pick = jax.lax.top_k(total, K)  # (K,)
    row, word = pick // width, word.reshape(-1)[pick]
    tokens = live.tokens[row].at[:, t].set(word)
    carry = jax.tree.map(lambda x: x[:, row], carry)

    ended = word == EOS
    new = _Done(
      tokens, log_prob, jnp.where(ended, log_prob / lengths[t], -jnp.inf), jnp.ones((K,), bool)
    )
    live = _Live(carry, tokens, jnp.where(ended, -jnp.inf, log_prob))
    return t + 1, live, _merge(done, new)

  t, live, done = jax.lax.while_loop(going, body, (jnp.int32(0), live, done))
  # Hypotheses cut at L tokens compete as they are; after an early stop none can win.
  cut = jnp.where(t == L, live.log_prob / lengths[-1], -jnp.inf)
  done = _merge(done, _Done(live.tokens, live.log_prob, cut, jnp.zeros((K,), bool)))
  top = jax.tree.map(lambda x: x[:n_best], done)
  return Captions(top.tokens, top.log_prob, top.ended, top.score)


def _merge(done: _Done, new: _Done) -> _Done:
  """The best K of two sets; on ties those that ended earlier come first."""
  both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), done, new)
  score, order = jax.lax.top_k(both.score, done.score.size)
  return jax.tree.map(lambda x: x[order], both).replace(score=score)
