"""The training captions as tables on the device, made once before training."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from vidcap_jax.data.vocabulary import EOS, PAD, UNK, Vocabulary
from vidcap_jax.rewards import cider, ngrams
from vidcap_jax.rewards.ngrams import Frequencies

Array = jax.Array
LANES = 128  # of a TPU's registers
VIDEOS_AT_ONCE = 64  # videos whose norms are computed together


@struct.dataclass
class References:
  """Reference captions of all training videos.

  A video's captions are one row of a matrix, which ``LANES`` divides. TPUs store such a matrix row
  by row without padding, as a step reads it. Arrays of other shapes have other layouts, and the
  compiler would copy the whole table at every step.

  Attributes:
    sentences: (videos, R M and more) int32; R is the most captions of a video, M the longest.
    norms: (videos, R ORDERS and more), see ``cider.norms``.
    frequencies: of n-grams, by the videos in whose captions they occur.
    most_captions: R.
    longest: M.
  """

  sentences: Array
  norms: Array
  frequencies: Frequencies
  most_captions: int = struct.field(pytree_node=False)
  longest: int = struct.field(pytree_node=False)

  def of_video(self, row: Array) -> 'VideoReferences':
    """One video's references; the frequencies stay those of all."""

    def by_caption(table, width):
      return table[row][: self.most_captions * width].reshape(self.most_captions, width)

    sentences = by_caption(self.sentences, self.longest)
    return VideoReferences(sentences, by_caption(self.norms, ngrams.ORDERS), self.frequencies)


@struct.dataclass
class VideoReferences:
  """One video's references: sentences (R, M), norms (R, ORDERS), and the frequencies of all."""

  sentences: Array
  norms: Array
  frequencies: Frequencies


def encode(
  captions: Sequence[Sequence[str]], vocabulary: Vocabulary, *, count_eos: bool
) -> np.ndarray:
  """Videos' captions as (videos, R, M) int32, at full length.

  Words that the vocabulary lacks get numbers of their own from ``len(vocabulary)`` on, so that
  n-grams and lengths are those of the words and not of ``<UNK>``.
  """
  unknown: dict[str, int] = {}

  def number(word: str) -> int:
    known = vocabulary.index.get(word, UNK)
    return known if known > UNK else unknown.setdefault(word, len(vocabulary) + len(unknown))

  end = [EOS] if count_eos else []
  rows = [
    [[number(word) for word in vocabulary.tokenize(caption)] + end for caption in video]
    for video in captions
  ]
  R = max(map(len, rows), default=0)
  M = max((len(row) for video in rows for row in video), default=0)
  encoded = np.full((len(rows), max(R, 1), max(M, 1)), PAD, np.int32)
  for v, video in enumerate(rows):
    for r, row in enumerate(video):
      encoded[v, r, : len(row)] = row
  return encoded


def make_references(
  captions: Sequence[Sequence[str]], vocabulary: Vocabulary, *, count_eos: bool
) -> References:
  """The tables of a training split: its captions, video after video."""
  sentences = encode(captions, vocabulary, count_eos=count_eos)
  frequencies = ngrams.count(sentences)

  @jax.jit
  def norms(sentences, frequencies):
    of_video = lambda video: cider.norms(video, frequencies)  # noqa: E731
    return jax.lax.map(of_video, sentences, batch_size=VIDEOS_AT_ONCE)

  placed = jnp.asarray(sentences)
  tables = as_rows(placed), as_rows(norms(placed, frequencies))
  return References(*tables, frequencies, *sentences.shape[1:])


def as_rows(table: Array) -> Array:
  """(videos, R, …) as a matrix with a row for each video, padded to a multiple of ``LANES``."""
  rows = table.reshape(len(table), -1)
  return jnp.pad(rows, ((0, 0), (0, -rows.shape[1] % LANES)))
