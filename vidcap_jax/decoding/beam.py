"""Beam search for one video, mapped over the batch."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from vidcap_jax.data.vocabulary import BOS, EOS, PAD
from vidcap_jax.decoding import compaction
from vidcap_jax.decoding.beam_banks import Banks, by_words, in_groups
from vidcap_jax.decoding.constraints import WORDS_ONLY, Constraints, constrain
from vidcap_jax.decoding.unroll import Captions
from vidcap_jax.distributed.mesh import batch_platform
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


@struct.dataclass
class _State:
  """One video's search after so many words."""

  words: Array  # ()
  live: _Live
  done: _Done


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

  per_list = -(-n_best // banks.lists)
  search = _Search(captioner, L, beam, banks, length_penalty, per_list, constraints)
  memory = jax.tree.map(lambda x: x[:, None], memory)  # leaves (B, 1, …)
  # A first step of its own is more to compile, which takes minutes for a TPU.
  is_apart = batch_platform() == 'cpu'
  state = compaction.run_until_ended(
    lambda t, memory, state: jax.vmap(functools.partial(search.step, t))(memory, state),
    lambda t, state: jax.vmap(functools.partial(search.can_improve, t))(state),
    int(is_apart),
    memory,
    jax.vmap(search.first_step if is_apart else search.start)(memory),
  )
  top = jax.vmap(lambda state: _in_rounds(search.end(state), n_best))(state)
  return Captions(top.tokens, top.log_prob, top.ended, top.score)


@dataclasses.dataclass(frozen=True)
class _Search:
  """The steps of one video's search; its memory has leaves (1, …).

  Attributes:
    per_list: how many captions of each list are wanted.
    The others are arguments of ``beam_search``, and its banks.
  """

  captioner: Captioner
  L: int
  beam: int
  banks: Banks
  length_penalty: float
  per_list: int
  constraints: Constraints

  def first_step(self, memory: Any) -> _State:
    """The state after the first word; only one row is computed, since all of them start equal."""
    start, R = self.start(memory), self.banks.first.size
    carry = self.captioner.start(memory, 1, self.L)
    carry, logits = self._advance(carry, jnp.full((1,), BOS, jnp.int32), memory)
    carry = jax.tree.map(lambda x: jnp.repeat(x, R, axis=1), carry)
    live = dataclasses.replace(start.live, carry=carry)
    return self._extend(jnp.int32(0), live, start.done, jnp.repeat(logits, R, axis=0))

  def start(self, memory: Any) -> _State:
    """The state before the first word."""
    R, G, L = self.banks.first.size, self.banks.lists, self.L
    K = self.beam // G
    carry = self.captioner.start(memory, R, L)
    first = jnp.full((R,), BOS, jnp.int32)
    dtype = jax.eval_shape(self._advance, carry, first, memory)[1].dtype
    no_score = jnp.full((G, K), -jnp.inf, dtype)
    log_prob = jnp.where(self.banks.first, jnp.zeros((R,), dtype), -jnp.inf)
    live = _Live(carry, jnp.full((R, L), PAD, jnp.int32), log_prob)
    done = _Done(
      jnp.full((G, K, L), PAD, jnp.int32), no_score, no_score, jnp.zeros((G, K), jnp.bool_)
    )
    return _State(jnp.int32(0), live, done)

  def step(self, t: Array, memory: Any, state: _State) -> _State:
    """The state after word t, from 0."""
    last = jnp.where(t == 0, BOS, state.live.tokens[:, jnp.maximum(t - 1, 0)])  # (R,)
    carry, logits = self._advance(state.live.carry, last, memory)
    return self._extend(t, dataclasses.replace(state.live, carry=carry), state.done, logits)

  def can_improve(self, t: Array, state: _State) -> Array:
    """Whether a hypothesis of t words can still become one of the captions that are wanted."""
    lengths = self._penalties(state.live.log_prob.dtype)
    # Log-probabilities only fall, so this bounds the score that a live hypothesis can reach.
    best = state.live.log_prob.reshape(self.banks.lists, -1).max(axis=1)
    bound = best / jnp.maximum(lengths[t], lengths[-1])
    return (t < self.L) & (bound > state.done.score[:, self.per_list - 1]).any()

  def end(self, state: _State) -> _Done:
    """All captions, with the hypotheses of L tokens, which are ranked without EOS."""
    live, last = state.live, self._penalties(state.live.log_prob.dtype)[-1]
    # After an early stop no live hypothesis is good enough.
    is_cut = (state.words == self.L) & self.banks.whole
    score = jnp.where(is_cut, live.log_prob / last, -jnp.inf)
    return _merge(state.done, _Done(live.tokens, live.log_prob, score, jnp.zeros_like(is_cut)))

  def _penalties(self, dtype: jnp.dtype) -> Array:
    """What the log-probability of a caption of 1, 2, … words is divided by: (L,)."""
    return jnp.arange(1, self.L + 1).astype(dtype) ** self.length_penalty

  def _advance(self, carry: Any, words: Array, memory: Any) -> tuple[Any, Array]:
    """Reads a word of each row (R,): the new carry and the next word's logits (R, V)."""
    x = self.captioner.embed(words[None], None)
    carry, hidden, _ = self.captioner.step(carry, x, memory, None, train=False)
    return carry, at_least_float32(self.captioner.logits(hidden))[0]

  def _extend(self, t: Array, live: _Live, done: _Done, logits: Array) -> _State:
    """Chooses word t of the hypotheses, given the carry after the words before."""
    allowed = constrain(self.constraints, logits, live.tokens, t)
    normaliser = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    row, word, log_prob = self.banks.extend(live.log_prob, allowed, normaliser)
    tokens = live.tokens[row].at[:, t].set(word)
    carry = jax.tree.map(lambda x: x[:, row], live.carry)
    ended = word == EOS
    score = jnp.where(ended, log_prob / self._penalties(logits.dtype)[t], -jnp.inf)
    live = _Live(carry, tokens, jnp.where(ended, -jnp.inf, log_prob))
    return _State(t + 1, live, _merge(done, _Done(tokens, log_prob, score, ended)))


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
