"""Beam search for one video, mapped over the batch."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from vidcap_jax.data.vocabulary import BOS, EOS, PAD
from vidcap_jax.decoding.beam_banks import Banks, by_words, in_groups
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints, constrain
from vidcap_jax.decoding.unroll import Captions
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Captioner
from vidcap_jax.models.layers.attention import at_least_float32

Array = jax.Array


@struct.dataclass
class _Live:
  """Hypotheses that have not ended: R rows; a row with log_prob -inf is empty."""

  carry: Any  # leaves (1, R, …)
  tokens: Array  # (R, L)
  log_prob: Array  # (R,)


@struct.dataclass
class _Done:
  """The K best ended hypotheses of each list, best first; empty rows have score -inf."""

  tokens: Array  # (G, K, L)
  log_prob: Array  # (G, K)
  score: Array  # (G, K)
  ended: Array  # (G, K)


def beam_search(
  captioner: Captioner,
  memory: Any,
  L: int,
  beam: int,
  *,
  length_penalty: float = 0.0,
  n_best: int = 1,
  constraints: Constraints = WORDS_ONLY,
  groups: int = 1,
  diversity: float = 0.0,
  forced: Sequence[int] = (),
) -> Captions:
  """Finds the n_best captions of every video, best first: tokens (B, n_best, L).

  At each step the ``beam`` likeliest continuations of all live hypotheses are kept. Those that end
  leave the beam and are ranked by log_prob / length ** length_penalty (length in tokens, EOS
  included). The search stops when no live hypothesis can still be among the n_best. A beam of 1 is
  greedy decoding, and a beam as wide as the number of prefixes is exhaustive search.

  Args:
    memory: from ``captioner.encode``, leaves (B, …).
    L: most tokens, EOS included; hypotheses that reach it without EOS are ranked as they are.
    beam: K, the number of hypotheses kept.
    length_penalty: 0 ranks by log-probability; 1 by log-probability per token.
    n_best: number of captions per video, at most ``beam``.
    constraints: which words may follow.
    groups, diversity: of diverse beam search, see ``beam_banks.in_groups``. Its captions are in
      rounds: the best of each group, best first, then the second best of each, and so on. So
      ``n_best`` = ``groups`` gives one caption of each group, and the first is the best of all.
    forced: ids of words that every caption must contain, see ``beam_banks.by_words``; not with
      several groups.

  Raises:
    ConfigError: n_best outside 1..beam; groups that don't divide the beam; too many forced words.
  """
  if not 1 <= n_best <= beam:
    raise ConfigError(f'n_best must be between 1 and the beam size {beam}, got {n_best}')
  banks = by_words(beam, forced, L) if forced else in_groups(beam, groups, diversity)

  def search(memory):
    memory = jax.tree.map(lambda x: x[None], memory)  # leaves (1, …)
    return _search(captioner, memory, L, banks, beam, length_penalty, n_best, constraints)

  return jax.vmap(search)(memory)


def _search(
  captioner: Captioner,
  memory: Any,
  L: int,
  banks: Banks,
  beam: int,
  length_penalty: float,
  n_best: int,
  constraints: Constraints,
) -> Captions:
  """One video's search; ``memory`` leaves (1, …), results (n_best, …)."""
  R, G = banks.first.size, banks.lists
  K = beam // G
  carry = captioner.start(memory, R, L)
  first = captioner.embed(jnp.full((1, R), BOS, jnp.int32), None)

  def logits_of(carry, x):
    carry, hidden, _ = captioner.step(carry, x, memory, None, train=False)
    return carry, at_least_float32(captioner.logits(hidden))[0]  # (R, V)

  dtype = jax.eval_shape(logits_of, carry, first)[1].dtype
  lengths = jnp.arange(1, L + 1).astype(dtype) ** length_penalty  # (L,)
  no_score = jnp.full((G, K), -jnp.inf, dtype)
  live = _Live(
    carry,
    jnp.full((R, L), PAD, jnp.int32),
    jnp.where(banks.first, jnp.zeros((R,), dtype), -jnp.inf),
  )
  done = _Done(
    jnp.full((G, K, L), PAD, jnp.int32), no_score, no_score, jnp.zeros((G, K), jnp.bool_)
  )
  per_list = -(-n_best // G)  # captions that are wanted of each list

  def can_improve(state):
    t, live, done = state
    # Log-probabilities only fall, so this bounds the score that a live hypothesis can reach.
    best = live.log_prob.reshape(G, -1).max(axis=1)
    bound = best / jnp.maximum(lengths[t], lengths[-1])
    return (t < L) & (bound > done.score[:, per_list - 1]).any()

  def body(state):
    t, live, done = state
    last = jnp.where(t == 0, BOS, live.tokens[:, jnp.maximum(t - 1, 0)])  # (R,)
    carry, logits = logits_of(live.carry, captioner.embed(last[None], None))
    allowed = constrain(constraints, logits, live.tokens, t)
    normaliser = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    row, word, log_prob = banks.extend(live.log_prob, allowed, normaliser)
    tokens = live.tokens[row].at[:, t].set(word)
    carry = jax.tree.map(lambda x: x[:, row], carry)

    ended = word == EOS
    score = jnp.where(ended, log_prob / lengths[t], -jnp.inf)
    live = _Live(carry, tokens, jnp.where(ended, -jnp.inf, log_prob))
    return t + 1, live, _merge(done, _Done(tokens, log_prob, score, ended))

  t, live, done = jax.lax.while_loop(can_improve, body, (jnp.int32(0), live, done))
  # Hypotheses of L tokens are ranked without EOS; after an early stop no live one is good enough.
  cut = jnp.where((t == L) & banks.whole, live.log_prob / lengths[-1], -jnp.inf)
  done = _merge(done, _Done(live.tokens, live.log_prob, cut, jnp.zeros((R,), jnp.bool_)))
  top = _in_rounds(done, n_best)
  return Captions(top.tokens, top.log_prob, top.ended, top.score)


def _merge(done: _Done, new: _Done) -> _Done:
  """Each list's best K of its old and new rows (R, …); of equal scores the earlier row is first."""
  G, K = done.score.shape

  def merge_list(done, new):
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), done, new)
    score, order = jax.lax.top_k(both.score, K)
    return jax.tree.map(lambda x: x[order], both).replace(score=score)

  return jax.vmap(merge_list)(done, jax.tree.map(lambda x: x.reshape(G, -1, *x.shape[1:]), new))


def _in_rounds(done: _Done, n_best: int) -> _Done:
  """The first n_best rows, taken in rounds: the best row of each list, then each second best, …"""
  G, K = done.score.shape
  _, order = jax.lax.top_k(done.score.T, G)  # (K, G), of lists
  turn = (order * K + jnp.arange(K)[:, None]).reshape(-1)[:n_best]
  return jax.tree.map(lambda x: x.reshape(G * K, *x.shape[2:])[turn], done)
