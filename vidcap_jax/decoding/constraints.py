"""Rules that exclude words from generated captions."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from vidcap_jax.data.vocabulary import BOS, EOS, PAD, UNK

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Constraints:
  """Rules for the words of a caption; ``constrain`` gives words that break one a logit of -inf.

  Attributes:
    forbidden: ids that are never generated.
    min_length: fewest words before EOS.
    no_repeat_ngram: size of n-grams that may not occur twice in a caption; 0 for no such rule.
  """

  forbidden: tuple[int, ...] = (PAD, BOS, UNK)
  min_length: int = 0
  no_repeat_ngram: int = 0


WORDS_ONLY = Constraints()  # any word or EOS, but no PAD, BOS or UNK


def constrain(
  constraints: Constraints, logits: Array, tokens: Array | None = None, t: Array | int = 0
) -> Array:
  """Sets the logits (…, V) of next words that would break a rule to -inf.

  Args:
    tokens: (…, L) the caption so far, valid before position t; used by the n-gram rule.
    t: position of the next word, from 0; used by the minimum length and the n-gram rule.
  """
  V = logits.shape[-1]
  shape = (1,) * (logits.ndim - 1) + (V,)
  banned = _banned(constraints, V, t).reshape(shape)
  # Only the n-gram rule differs between captions: without it the mask stays small.
  if constraints.no_repeat_ngram:
    banned = banned | _repeats(constraints.no_repeat_ngram, V, tokens, t)
    # If the rules exclude all words, the caption ends.
    banned &= ~(banned.all(axis=-1, keepdims=True) & _is_eos(V).reshape(shape))
  return jnp.where(banned, -jnp.inf, logits)


def _banned(constraints: Constraints, V: int, t: Array | int) -> Array:
  """(V,), True for words that may not come at position t, whatever came before.

  The masks are constants of the program, so that no loop over words makes them again.
  """
  always = np.isin(np.arange(V), constraints.forbidden)
  early = always | _is_eos(V)
  # If the rules exclude all words, the caption ends.
  always, early = (mask & ~(mask.all() & _is_eos(V)) for mask in (always, early))
  if constraints.min_length < 1:
    return jnp.asarray(always)
  return jnp.where(t < constraints.min_length, early, always)


def _is_eos(V: int) -> np.ndarray:
  return np.arange(V) == EOS


def _repeats(n: int, V: int, tokens: Array, t: Array) -> Array:
  """(…, V), True for words that would complete an n-gram that tokens[:t] already contains."""
  L = tokens.shape[-1]
  starts = jnp.arange(max(0, L - n + 1))  # of the earlier n-grams
  # The last n - 1 words, and each earlier n-gram's first n - 1 words.
  suffix = jnp.stack([tokens[..., t - n + 1 + i] for i in range(n - 1)], -1) if n > 1 else None
  same = jnp.broadcast_to(starts + n <= t, (*tokens.shape[:-1], starts.size))
  for i in range(n - 1):
    same &= tokens[..., i : i + starts.size] == suffix[..., i, None]
  last = tokens[..., n - 1 :]  # (…, starts) the word that completed each earlier n-gram
  hits = jax.nn.one_hot(jnp.where(same, last, V), V, dtype=jnp.bool_)
  # EOS may end any caption: it is never part of a repeated n-gram.
  hits = hits.any(axis=-2)
  return hits.at[..., EOS].set(False)
