"""How the hypotheses of a beam search are kept apart, so that some don't crowd out others."""

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
MOST_WORDS = 4  # forced words: each doubles the hypotheses


@dataclasses.dataclass(frozen=True)
class Banks:
  """R hypotheses, in equal banks one after another.

  Attributes:
    lists: G, how many rankings of captions there are; the rows are split evenly among them.
    first: (R,) True for the rows that hold the empty hypothesis at the beginning.
    whole: (R,) True for the rows whose hypotheses are captions, should they be cut at L tokens.
    extend: the hypotheses of the next step: from log_prob (R,), logits (R, V) with -inf for what
      is not allowed, and their normalisers (R, 1) to the row that each continues, its next word
      and its log-probability, each (R,).
  """

  lists: int
  first: np.ndarray
  whole: np.ndarray
  extend: Callable[[Array, Array, Array], Picks]


def in_groups(beam: int, groups: int = 1, diversity: float = 0.0) -> Banks:
  """Diverse beam search (Vijayakumar et al. 2018, Algorithm 1); with one group plain beam search.

  The groups, of ``beam`` / ``groups`` hypotheses each and each with a ranking of its own, are
  extended one after another. A word is chosen as if its log-probability were less by ``diversity``
  for every hypothesis of an earlier group that says it at the same step and goes on: Hamming
  diversity. The end of a caption is never made less likely.

  Raises:
    ConfigError: the groups don't divide the beam, or the diversity is negative.
  """
  if groups < 1 or beam % groups or diversity < 0:
    raise ConfigError(
      f'decode.groups must divide decode.beam, and decode.diversity be 0 or more; got {groups} '
      f'groups of a beam of {beam} and diversity {diversity}'
    )
  K = beam // groups

  def extend(log_prob: Array, logits: Array, normaliser: Array) -> Picks:
    said = jnp.zeros(logits.shape[-1:], logits.dtype)  # (V,) how often, in the groups so far
    picks = []
    for start in range(0, beam, K):
      own = slice(start, start + K)
      row, word, total = _best(log_prob[own], logits[own], normaliser[own], diversity * said)
      said = said.at[word].add((jnp.isfinite(total) & (word != EOS)).astype(said.dtype))
      picks.append((start + row, word, total))
    row, word, total = (jnp.concatenate(x) for x in zip(*picks))
    return row, word, total

  return Banks(groups, np.arange(beam) % K == 0, np.ones(beam, bool), extend)


def _best(log_prob: Array, logits: Array, normaliser: Array, penalty: Array) -> Picks:
  """The K best continuations of K hypotheses, chosen by log-probability less penalty (V,)."""
  K, V = logits.shape
  # The best of a row are its largest logits: only those are normalised.
  width = min(K, V)
  word = _largest(logits - penalty[None], width)[1]  # (K, width)
  gain = jnp.take_along_axis(logits, word, axis=-1) - normaliser
  total, word = (log_prob[:, None] + gain).reshape(-1), word.reshape(-1)
  pick = jax.lax.top_k(total - penalty[word], K)[1]  # (K,)
  return pick // width, word[pick], total[pick]


def _largest(x: Array, k: int) -> tuple[Array, Array]:
  """``jax.lax.top_k`` of (R, V), in a third of the time on a CPU, where it sorts row by row.

  The k largest of a row lie in the k parts of it whose largest are the largest.
  """
  R, V = x.shape
  width = max(1, math.isqrt(V))
  parts = -(-V // width)
  if parts <= 2 * k:
    return jax.lax.top_k(x, k)
  padded = jnp.pad(x, ((0, 0), (0, parts * width - V)), constant_values=-jnp.inf)
  padded = padded.reshape(R, parts, width)
  # In order of place, so that of equal values the first is taken, as top_k does.
  part = jnp.sort(jax.lax.top_k(padded.max(axis=-1), k)[1], axis=-1)  # (R, k)
  found = jnp.take_along_axis(padded, part[..., None], axis=1).reshape(R, -1)  # (R, k width)
  largest, at = jax.lax.top_k(found, k)
  place = jnp.take_along_axis(part, at // width, axis=-1) * width + at % width
  return largest, jnp.minimum(place, V - 1)  # where all is -inf it may be in the padding


def by_words(beam: int, words: Sequence[int], L: int) -> Banks:
  """Captions that hold given words (constrained beam search, Anderson et al. 2017).

  Each subset of the words has a bank of ``beam`` hypotheses, which hold these of the words and no
  other: bank m holds word c where bit c of m is set. A hypothesis that says a word that it lacks
  moves to another bank, and so need not compete with those that put it off. Only hypotheses of the
  last bank end; it fills within the first C steps, so no caption lacks a word.

  Args:
    words: different ids, in any order.
    L: most tokens of a caption.

  Raises:
    ConfigError: more than 4 words, or more than L - 1.
  """
  C = len(words)
  if min(MOST_WORDS, L - 1) < C:
    raise ConfigError(
      f'decode.force: {C} words are too many: at most {MOST_WORDS}, and captions hold {L - 1}'
    )
  M = 2**C
  bank = np.arange(M).repeat(beam)  # (R,)
  bits = 1 << np.arange(C)
  unmet = (bank[:, None] & bits) == 0  # (R, C)
  forced = np.asarray(words, np.int32)

  def extend(log_prob: Array, logits: Array, normaliser: Array) -> Picks:
    width = min(beam, logits.shape[-1])
    logits = logits.at[:-beam, EOS].set(-jnp.inf)
    # Of a row's continuations the best that stay in its bank, and those that lead to another.
    leads = jnp.where(unmet, logits[:, forced], -jnp.inf)  # (R, C)
    stays = logits.at[:, forced].set(jnp.where(unmet, -jnp.inf, logits[:, forced]))
    best, word = _largest(stays, width)  # (R, width)
    gain = jnp.concatenate([best, leads], axis=1) - normaliser
    word = jnp.concatenate([word, jnp.broadcast_to(forced, leads.shape)], axis=1)
    to = np.concatenate([bank[:, None].repeat(width, 1), bank[:, None] | bits], axis=1)
    total = (log_prob[:, None] + gain).reshape(1, -1)
    into = jnp.where(to.reshape(1, -1) == np.arange(M)[:, None], total, -jnp.inf)  # (M, …)
    log_prob, pick = (x.reshape(-1) for x in jax.lax.top_k(into, beam))  # (R,)
    return pick // (width + C), word.reshape(-1)[pick], log_prob

  return Banks(1, np.arange(M * beam) == 0, bank == M - 1, extend)
