"""Divides the hypotheses of a beam search into banks, which don't compete with each other."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from vidcap_jax.data.vocabulary import EOS
from vidcap_jax.errors import ConfigError

Array = jax.Array
Picks = tuple[Array, Array, Array]
MOST_WORDS = 4  # forced words, each of which doubles the hypotheses


@dataclasses.dataclass(frozen=True)
class Banks:
  """R hypotheses, in banks of equal size one after another.

  Attributes:
    lists: G, the number of separate rankings of captions; the rows are split evenly among them.
    first: (R,) True for the rows that start with the empty hypothesis.
    whole: (R,) True for the rows whose hypotheses count as captions if they reach L tokens.
    extend: chooses the hypotheses of the next step. It maps log_prob (R,), logits (R, V) with -inf
      for words that are not allowed, and their normalisers (R, 1) to the row that each new
      hypothesis continues, its next word and its log-probability, each (R,).
  """

  lists: int
  first: np.ndarray
  whole: np.ndarray
  extend: Callable[[Array, Array, Array], Picks]


def check_groups(beam: int, groups: int, diversity: float) -> None:
  """Raises ConfigError if the groups don't divide the beam, or the diversity is negative."""
  if groups < 1 or beam % groups or diversity < 0:
    raise ConfigError(
      f'decode.groups must divide decode.beam, and decode.diversity be 0 or more; got {groups} '
      f'groups of a beam of {beam} and diversity {diversity}'
    )


def in_groups(beam: int, groups: int = 1, diversity: float = 0.0) -> Banks:
  """Diverse beam search (Vijayakumar et al. 2018, Algorithm 1); with one group plain beam search.

  Each group has ``beam`` / ``groups`` hypotheses and its own ranking, and groups are extended one
  after another. When a group chooses words, a word's log-probability is reduced by ``diversity``
  for every live hypothesis of an earlier group that has the same word at the same step (Hamming
  diversity). EOS is never penalised.

  Raises:
    ConfigError: the groups don't divide the beam, or the diversity is negative.
  """
  check_groups(beam, groups, diversity)
  K = beam // groups

  def extend(log_prob: Array, logits: Array, normaliser: Array) -> Picks:
    counts = jnp.zeros(logits.shape[-1:], logits.dtype)  # (V,) of words in the groups so far
    picks = []
    for start in range(0, beam, K):
      group = slice(start, start + K)
      penalty = diversity * counts
      row, word, total = _best(log_prob[group], logits[group], normaliser[group], penalty)
      counts = counts.at[word].add((jnp.isfinite(total) & (word != EOS)).astype(counts.dtype))
      picks.append((start + row, word, total))
    row, word, total = (jnp.concatenate(x) for x in zip(*picks))
    return row, word, total

  return Banks(groups, np.arange(beam) % K == 0, np.ones(beam, bool), extend)


def _best(log_prob: Array, logits: Array, normaliser: Array, penalty: Array) -> Picks:
  """The K best continuations of K hypotheses, chosen by log-probability less penalty (V,)."""
  K, V = logits.shape
  # A row's best words are those with its largest logits, so only these are normalised.
  width = min(K, V)
  word = _largest(logits - penalty[None], width)[1]  # (K, width)
  gain = jnp.take_along_axis(logits, word, axis=-1) - normaliser
  total, word = (log_prob[:, None] + gain).reshape(-1), word.reshape(-1)
  pick = jax.lax.top_k(total - penalty[word], K)[1]  # (K,)
  return pick // width, word[pick], total[pick]


def _largest(x: Array, k: int) -> tuple[Array, Array]:
  """``jax.lax.top_k`` of (R, V), three times as fast on a CPU, where top_k sorts whole rows.

  Each row is divided into parts: its k largest values are in the k parts with the largest maxima.
  """
  R, V = x.shape
  width = max(1, math.isqrt(V))
  parts = -(-V // width)
  if parts <= 2 * k:
    return jax.lax.top_k(x, k)
  padded = jnp.pad(x, ((0, 0), (0, parts * width - V)), constant_values=-jnp.inf)
  padded = padded.reshape(R, parts, width)
  # Parts are sorted by position, so that the first of equal values is taken, as by top_k.
  part = jnp.sort(jax.lax.top_k(padded.max(axis=-1), k)[1], axis=-1)  # (R, k)
  found = jnp.take_along_axis(padded, part[..., None], axis=1).reshape(R, -1)  # (R, k width)
  largest, at = jax.lax.top_k(found, k)
  index = jnp.take_along_axis(part, at // width, axis=-1) * width + at % width
  return largest, jnp.minimum(index, V - 1)  # it may be in the padding if all values are -inf


def by_words(beam: int, words: Sequence[int], L: int) -> Banks:
  """Captions that contain given words (constrained beam search, Anderson et al. 2017).

  Each subset of the C words has a bank of ``beam`` hypotheses that contain exactly these of the
  words: those in bank m contain word c if bit c of m is set. A hypothesis that adds a missing word
  moves to another bank, so it doesn't compete with hypotheses that postpone the word. Only
  hypotheses of the last bank may end. It is filled within the first C steps, so every caption
  contains all words.

  Args:
    words: distinct ids, in any order.
    L: most tokens of a caption.

  Raises:
    ConfigError: more than 4 words, or more than L - 1.
  """
  C = len(words)
  if min(MOST_WORDS, L - 1) < C:
    raise ConfigError(
      f'decode.force: {C} words are too many; at most {MOST_WORDS} are possible, and captions have '
      f'at most {L - 1} words'
    )
  M = 2**C
  bank = np.arange(M).repeat(beam)  # (R,)
  bits = 1 << np.arange(C)
  unmet = (bank[:, None] & bits) == 0  # (R, C)
  forced = np.asarray(words, np.int32)

  def extend(log_prob: Array, logits: Array, normaliser: Array) -> Picks:
    width = min(beam, logits.shape[-1])
    logits = logits.at[:-beam, EOS].set(-jnp.inf)
    # A row's best continuations that stay in its bank, and those that move to another bank.
    moving = jnp.where(unmet, logits[:, forced], -jnp.inf)  # (R, C)
    staying = logits.at[:, forced].set(jnp.where(unmet, -jnp.inf, logits[:, forced]))
    best, word = _largest(staying, width)  # (R, width)
    gain = jnp.concatenate([best, moving], axis=1) - normaliser
    word = jnp.concatenate([word, jnp.broadcast_to(forced, moving.shape)], axis=1)
    new_bank = np.concatenate([bank[:, None].repeat(width, 1), bank[:, None] | bits], axis=1)
    total = (log_prob[:, None] + gain).reshape(1, -1)
    is_in_bank = new_bank.reshape(1, -1) == np.arange(M)[:, None]
    by_bank = jnp.where(is_in_bank, total, -jnp.inf)  # (M, …)
    log_prob, pick = (x.reshape(-1) for x in jax.lax.top_k(by_bank, beam))  # (R,)
    return pick // (width + C), word.reshape(-1)[pick], log_prob

  return Banks(1, np.arange(M * beam) == 0, bank == M - 1, extend)
