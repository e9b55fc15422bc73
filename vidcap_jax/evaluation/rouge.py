"""ROUGE-L of many videos, with the values of pycocoevalcap's scorer."""

from collections.abc import Sequence

import numpy as np

BETA = 1.2  # how much more recall counts than precision


def rouge_l(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> tuple[float, np.ndarray]:
  """ROUGE-L of the corpus, the mean over videos, and of each video, (N,).

  Of a video's references, the best precision and the best recall count, which may be those of
  different references (Lin, 2004, for several references). A caption without words scores 0.

  Args:
    hypotheses: tokens joined by spaces, one caption a video.
    references: the same of each video, one or more.
  """
  videos = np.array([_score(h, r) for h, r in zip(hypotheses, references, strict=True)])
  return float(np.mean(videos)), videos


def _score(hypothesis: str, references: Sequence[str]) -> float:
  if not hypothesis:
    return 0.0
  words = hypothesis.split(' ')
  places: dict[str, int] = {}
  for place, word in enumerate(words):
    places[word] = places.get(word, 0) | 1 << place
  longest, recall = 0, 0.0
  for reference in references:
    others = reference.split(' ')
    common = _common_subsequence(places, len(words), others)
    longest, recall = max(longest, common), max(recall, common / len(others))
  if not longest:
    return 0.0
  precision = longest / len(words)
  return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def _common_subsequence(places: dict[str, int], length: int, words: Sequence[str]) -> int:
  """The length of the longest common subsequence of two captions.

  A row of the usual table is one integer: bit i is 0 where the row's value grows at word i of the
  first caption. One addition then computes the next row (Hyyrö, 2004).

  Args:
    places: the bits of the first caption's words.
    length: its number of words.
    words: the second caption.
  """
  full = (1 << length) - 1
  row = full
  for word in words:
    if mask := places.get(word):
      rises = row & mask
      row = (row + rises | row - rises) & full
  return length - row.bit_count()
