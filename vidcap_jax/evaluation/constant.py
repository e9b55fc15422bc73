"""The score of a captioner that ignores its input: the same caption for every video."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.evaluation.metrics import References, prepare_references, tokenize


def constant_baseline(
  references: Mapping[str, Sequence[str]] | References, candidates: Sequence[str]
) -> tuple[str, float]:
  """The candidate that scores best as the caption of every video, and its CIDEr.

  All candidates share one table of document frequencies and one pass over the references; the
  value equals that of ``score``.

  Args:
    references: as for ``score``.
    candidates: captions, e.g. the 100 most frequent training captions; the first of equal ones
      wins.

  Raises:
    DataError: no candidates, or as for ``prepare_references``.
  """
  from pycocoevalcap.cider.cider_scorer import precook

  if not candidates:
    raise DataError('no candidate captions for the constant baseline')
  if not isinstance(references, References):
    references = prepare_references(references)
  cooked = [precook(tokens) for tokens in tokenize(candidates, references.by_character)]
  candidate_grams = set().union(*cooked)

  videos = [[precook(c) for c in captions] for captions in references.captions.values()]
  frequency = Counter(gram for captions in videos for gram in set().union(*captions))
  # An n-gram's weight is its count times its inverse document frequency.
  idf = {
    g: math.log(len(videos)) - math.log(max(1, frequency[g]))
    for g in candidate_grams | set(frequency)
  }

  flat = [(i, counts) for i, captions in enumerate(videos) for counts in captions]
  squares = np.zeros((len(flat), 4))
  weights: dict[tuple, tuple[list, list]] = {gram: ([], []) for gram in candidate_grams}
  for row, (_, counts) in enumerate(flat):
    for gram, count in counts.items():
      weight = count * idf[gram]
      squares[row, len(gram) - 1] += weight**2
      if gram in candidate_grams:
        weights[gram][0].append(row)
        weights[gram][1].append(weight)
  columns = {g: (np.array(rows, int), np.array(w)) for g, (rows, w) in weights.items()}
  norms = np.sqrt(squares)  # (all references, n)
  lengths = np.array([_bigrams(counts) for _, counts in flat])
  # Each video has the same weight, whatever its number of references.
  share = np.array([1 / len(videos[i]) for i, _ in flat]) / len(videos)

  def cider(counts) -> float:
    products = np.zeros_like(norms)
    norm = np.zeros(4)
    for gram, count in counts.items():
      rows, reference = columns[gram]
      weight = count * idf[gram]
      norm[len(gram) - 1] += weight**2
      products[rows, len(gram) - 1] += np.minimum(weight, reference) * reference
    scale = np.sqrt(norm) * norms
    cosine = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    penalty = np.exp(-((_bigrams(counts) - lengths) ** 2) / (2 * 6.0**2))
    return float(10 * np.sum(share * penalty * cosine.mean(axis=1)))

  values = [cider(counts) for counts in cooked]
  best = int(np.argmax(values))
  return candidates[best], values[best]


def _bigrams(counts) -> int:
  """The number of bigrams, which CIDEr-D's length penalty takes as the length."""
  return sum(count for gram, count in counts.items() if len(gram) == 2)
