"""N-grams of token ids, matched exactly: which a sentence has, and how common they are.

Sentences are int32 (…, L): words, then PAD. Words are compared by their ids and n-grams word by
word, so that different n-grams are never confused, as hashes could be.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from vidcap_jax.data.vocabulary import EOS, PAD

Array = jax.Array
ORDERS = 4  # n-grams of 1 to 4 words


def sentence_of(tokens: Array, *, count_eos: bool) -> Array:
  """The words (…, L) that a reward counts: those before the first EOS, with it if it counts."""
  is_eos = tokens == EOS
  after = jnp.cumsum(is_eos, axis=-1, dtype=tokens.dtype) - is_eos.astype(tokens.dtype) > 0
  dropped = after if count_eos else after | is_eos
  return jnp.where(dropped, PAD, tokens)


def length(sentence: Array) -> Array:
  """Number of words (…,) of sentences (…, L)."""
  return (sentence != PAD).sum(axis=-1, dtype=jnp.int32)


def matches(a: Array, b: Array) -> Array:
  """Where two sentences have the same n-gram: (…, L), (…, M) to bool (…, ORDERS, L, M).

  Entry (n, i, j) says whether the n + 1 words from i on in ``a`` are those from j on in ``b``.
  """
  same = (a[..., :, None] == b[..., None, :]) & (a != PAD)[..., :, None]  # (…, L, M)
  found, later = [same], same
  for _ in range(1, ORDERS):
    # The next word of both; past the end there is none, which matches nothing.
    later = jnp.pad(later[..., 1:, 1:], [(0, 0)] * (same.ndim - 2) + [(0, 1), (0, 1)])
    found.append(found[-1] & later)
  return jnp.stack(found, axis=-3)


def own_counts(sentence: Array) -> tuple[Array, Array]:
  """How often a sentence (…, L) has each of its n-grams.

  Returns:
    counts (…, ORDERS, L) int32, by where the n-gram begins, 0 where none does; and bool of the
    same shape, True at the first place of each different n-gram.
  """
  same = matches(sentence, sentence)  # (…, N, L, L)
  counts = same.sum(axis=-1, dtype=jnp.int32)
  return counts, (counts > 0) & ~jnp.tril(same, -1).any(axis=-1)


def counts_in(sentence: Array, other: Array) -> Array:
  """How often ``other`` (…, M) has each n-gram of a sentence (…, L): (…, ORDERS, L) int32."""
  return matches(sentence, other).sum(axis=-1, dtype=jnp.int32)


@struct.dataclass
class Frequencies:
  """In how many videos' captions each n-gram occurs, as a trie of all n-grams.

  Node 0 is the empty n-gram; the children of node k, sorted by word, are the nodes from
  ``first[k]`` to before ``first[k + 1]``; the last node is for n-grams that occur in none.

  Attributes:
    first: (nodes + 1,) int32.
    word: (nodes,) int32, the last word of each n-gram.
    idf: (nodes,) log(videos) - log(max(1, videos with the n-gram)), what CIDEr-D weighs it by.
    steps: halvings that find a word among the children of any node.
  """

  first: Array
  word: Array
  idf: Array
  steps: int = struct.field(pytree_node=False)


def count(references: np.ndarray) -> Frequencies:
  """The frequencies of all n-grams of references (videos, R, L), sentences of token ids.

  R is as many as any video has; the others are all PAD.
  """
  videos, R, L = references.shape
  video = np.broadcast_to(np.arange(videos)[:, None, None], references.shape)
  node = np.zeros(references.shape, np.int64)  # of the n-gram that begins here; -1: none does
  word, frequency = [0], [0]
  base = int(references.max(initial=0)) + 1
  children = [np.zeros(1, np.int64)]  # number of children, level by level
  level_begin, nodes, most = 0, 1, 1
  for n in range(ORDERS):
    last = np.full(references.shape, PAD)
    last[..., : max(L - n, 0)] = references[..., n:]
    present = (node >= 0) & (last != PAD)
    keys, which = np.unique(node[present] * base + last[present], return_inverse=True)
    pairs = np.unique(which.astype(np.int64) * videos + video[present])
    parents = keys // base
    counted = np.bincount(parents - level_begin, minlength=nodes - level_begin)
    children[-1] = counted
    most = max(most, int(counted.max(initial=0)))
    word.extend(keys % base)
    frequency.extend(np.bincount(pairs // videos, minlength=len(keys)))
    node = np.full(references.shape, -1, np.int64)
    node[present] = nodes + which
    level_begin, nodes = nodes, nodes + len(keys)
    children.append(np.zeros(len(keys), np.int64))
  of_each = np.concatenate([*children, [0]])  # the last node: n-grams that occur in none
  first = np.concatenate([[1], 1 + np.cumsum(of_each)])
  idf = np.log(max(videos, 1)) - np.log(np.maximum(1, [*frequency, 0]))
  return Frequencies(
    jnp.asarray(first, jnp.int32),
    jnp.asarray([*word, PAD], jnp.int32),
    jnp.asarray(idf),
    most.bit_length(),
  )


def idf(frequencies: Frequencies, sentence: Array) -> Array:
  """The weight of every n-gram of a sentence (…, L): (…, ORDERS, L), by where it begins."""
  node, found = jnp.zeros(sentence.shape, jnp.int32), []
  last = sentence
  for _ in range(ORDERS):
    node = _child(frequencies, node, last)
    found.append(frequencies.idf[node])
    last = jnp.concatenate([last[..., 1:], jnp.full_like(last[..., :1], PAD)], axis=-1)
  return jnp.stack(found, axis=-2)


def _child(frequencies: Frequencies, node: Array, word: Array) -> Array:
  """The child of each node (…,) by its last word (…,)."""
  first, end = frequencies.first[node], frequencies.first[node + 1]

  def halve(_, state):
    low, high = state
    middle = (low + high) // 2
    right = (low < high) & (frequencies.word[middle] < word)
    return jnp.where(right, middle + 1, low), jnp.where(right, high, middle)

  # A loop, as XLA takes a minute to compile all halvings written out.
  low, _ = jax.lax.fori_loop(0, frequencies.steps, halve, (first, end))
  unseen = len(frequencies.word) - 1
  return jnp.where((low < end) & (frequencies.word[low] == word), low, unseen)
