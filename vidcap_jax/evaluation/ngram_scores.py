"""BLEU and CIDEr-D of many videos at once, with the values of pycocoevalcap's scorers.

Every n-gram gets a number and the counts of all captions are rows of one table, so that both scores
are sums over that table. Papineni et al. (2002) is BLEU, Vedantam et al. (2015) CIDEr-D.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

ORDERS = 4  # n-grams of 1 to 4 words
SIGMA = 6.0  # of CIDEr-D's length penalty, in bigrams
# pycocoevalcap adds these to BLEU's counts so that nothing is divided by 0.
_TINY, _SMALL = 1e-15, 1e-9

CorpusAndVideos = tuple[float, np.ndarray]


@dataclasses.dataclass(frozen=True)
class OrderCounts:
  """How often n-grams of one order occur in captions: a row for each n-gram of a caption.

  Captions are numbered 0 to N - 1 (hypotheses, one a video) and on to N + R - 1 (references).

  Attributes:
    captions: (rows,), the caption of a row.
    grams: (rows,), the number of the n-gram.
    counts: (rows,), how often the caption has it.
  """

  captions: np.ndarray
  grams: np.ndarray
  counts: np.ndarray


@dataclasses.dataclass(frozen=True)
class CaptionCounts:
  """The n-grams of one caption a video and of the videos' references.

  Attributes:
    lengths: (N + R,), words of each caption; the hypotheses are first.
    videos: (N + R,), the video of each caption.
    orders: for n = 1 to 4.
  """

  lengths: np.ndarray
  videos: np.ndarray
  orders: Sequence[OrderCounts]

  @property
  def size(self) -> int:
    """The number of videos, N."""
    return int(self.videos[-1]) + 1


def count_ngrams(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionCounts:
  """Counts the n-grams of captions, for ``bleu`` and ``cider``.

  Args:
    hypotheses: tokens joined by spaces, one caption a video.
    references: the same of each video, one or more.
  """
  captions = [*hypotheses, *(caption for captions in references for caption in captions)]
  split = [caption.split() for caption in captions]
  lengths = np.array([len(words) for words in split])
  numbers: dict[str, int] = {}
  words = np.array(
    [numbers.setdefault(word, len(numbers)) for words in split for word in words], np.int64
  )
  videos = np.concatenate(
    [np.arange(len(hypotheses)), np.repeat(np.arange(len(references)), list(map(len, references)))]
  )
  # The caption and the word's place from the end of it, for each word of the text.
  owners = np.repeat(np.arange(len(captions)), lengths)
  left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))
  orders, grams = [], words
  for n in range(1, ORDERS + 1):
    starts = left >= n
    if n > 1:  # an n-gram is its first n - 1 words and its last word
      longer = np.full(len(words), -1)
      at = np.flatnonzero(starts)
      keys = grams[at] * len(numbers) + words[at + n - 1]
      longer[at] = np.unique(keys, return_inverse=True)[1]
      grams = longer
    orders.append(_count(owners[starts], grams[starts]))
  return CaptionCounts(lengths, videos, orders)


def _count(captions: np.ndarray, grams: np.ndarray) -> OrderCounts:
  size = int(grams.max(initial=0)) + 1
  keys, counts = np.unique(captions * size + grams, return_counts=True)
  return OrderCounts(keys // size, keys % size, counts)


def bleu(counted: CaptionCounts) -> list[CorpusAndVideos]:
  """BLEU-1 to BLEU-4 of the corpus and of each video, (N,).

  The reference length is the one closest to the caption's, the shorter of two that are as close.
  """
  counts = bleu_counts(counted)
  videos, corpus = bleu_of_counts(counts), bleu_of_counts(counts.sum(axis=0))
  return [(float(corpus[n]), videos[:, n]) for n in range(ORDERS)]


def bleu_counts(counted: CaptionCounts) -> np.ndarray:
  """What BLEU needs of each video, (N, 10); sums over videos are those of the corpus.

  Returns:
    Words of the caption; words of the reference of the closest length; number of n-grams of the
    caption, n = 1 to 4; number of these that a reference has.
  """
  words = counted.lengths[: counted.size]
  guesses = [np.maximum(words - n, 0) for n in range(ORDERS)]
  correct = [_clipped_matches(counted, order) for order in counted.orders]
  columns = [words, _closest_lengths(counted), *guesses, *correct]
  return np.stack(columns, axis=-1).astype(float)


def bleu_of_counts(counts: np.ndarray) -> np.ndarray:
  """BLEU-1 to BLEU-4 of ``bleu_counts`` or of sums of them: (…, 10) -> (…, 4)."""
  words, reference_words = counts[..., :1], counts[..., 1:2]
  guesses, correct = counts[..., 2 : 2 + ORDERS], counts[..., 2 + ORDERS :]
  products = np.cumprod((correct + _TINY) / (guesses + _SMALL), axis=-1)
  ratio = (words + _TINY) / (reference_words + _SMALL)
  penalty = np.exp(np.minimum(0.0, 1 - 1 / ratio))
  return products ** (1 / np.arange(1, ORDERS + 1)) * penalty


def _clipped_matches(counted: CaptionCounts, order: OrderCounts) -> np.ndarray:
  """The n-grams of each hypothesis that a reference has as often: (N,)."""
  hypotheses = order.captions < counted.size
  rows, matched = _match(counted, order, hypotheses)
  most = np.zeros(np.count_nonzero(hypotheses), np.int64)
  np.maximum.at(most, matched, order.counts[rows])
  clipped = np.minimum(most, order.counts[hypotheses])
  return np.bincount(order.captions[hypotheses], clipped, counted.size)


def _match(
  counted: CaptionCounts, order: OrderCounts, hypotheses: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """The rows of references whose n-gram the video's hypothesis has, and its rows.

  Args:
    counted: the captions.
    order: the n-grams' counts.
    hypotheses: (rows,), whether a row is of a hypothesis; these rows are first.

  Returns:
    (matches,), rows of references; (matches,), rows of hypotheses.
  """
  size = int(order.grams.max(initial=0)) + 1
  keys = counted.videos[order.captions] * size + order.grams
  known = keys[hypotheses]  # sorted, as captions and then n-grams are
  rows = np.flatnonzero(~hypotheses)
  if not len(known):
    return rows[:0], rows[:0]
  found = np.minimum(np.searchsorted(known, keys[rows]), len(known) - 1)
  matches = known[found] == keys[rows]
  return rows[matches], found[matches]


def _closest_lengths(counted: CaptionCounts) -> np.ndarray:
  """The length of the reference that is closest to the hypothesis's: (N,)."""
  N = counted.size
  lengths, videos = counted.lengths[N:], counted.videos[N:]
  longest = int(lengths.max()) + 1
  ranks = np.abs(lengths - counted.lengths[videos]) * longest + lengths
  first = np.searchsorted(videos, np.arange(N))
  return np.minimum.reduceat(ranks, first) % longest


def cider(counted: CaptionCounts) -> CorpusAndVideos:
  """CIDEr-D of the corpus and of each video, (N,), with the references' document frequencies."""
  N, captions = counted.size, len(counted.lengths)
  references = captions - N
  similarity = np.zeros((ORDERS, references))
  for n, order in enumerate(counted.orders):
    hypotheses = order.captions < N
    weights = order.counts * (math.log(N) - _log_frequencies(counted, order))
    norms = np.sqrt(np.bincount(order.captions, weights**2, captions))
    rows, matched = _match(counted, order, hypotheses)
    products = np.minimum(weights[matched], weights[rows]) * weights[rows]
    sums = np.bincount(order.captions[rows] - N, products, references)
    scale = norms[counted.videos[N:]] * norms[N:]
    np.divide(sums, scale, out=similarity[n], where=scale > 0)
  bigrams = np.bincount(counted.orders[1].captions, counted.orders[1].counts, captions)
  difference = bigrams[counted.videos[N:]] - bigrams[N:]
  similarity *= np.exp(-(difference**2) / (2 * SIGMA**2))
  totals = np.bincount(counted.videos[N:], similarity.mean(axis=0), N)
  videos = 10.0 * totals / np.bincount(counted.videos[N:], minlength=N)
  return float(np.mean(videos)), videos


def _log_frequencies(counted: CaptionCounts, order: OrderCounts) -> np.ndarray:
  """The logarithm of the number of videos whose references have a row's n-gram: (rows,).

  An n-gram of hypotheses alone counts as in one video.
  """
  size = int(order.grams.max(initial=0)) + 1
  of_references = order.captions >= counted.size
  videos = counted.videos[order.captions[of_references]]
  # With counts, numpy sorts; without, it hashes, which takes ten times as long here.
  pairs, _ = np.unique(videos * size + order.grams[of_references], return_counts=True)
  frequencies = np.bincount(pairs % size, minlength=size)
  return np.log(np.maximum(frequencies, 1))[order.grams]
