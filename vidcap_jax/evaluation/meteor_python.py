"""METEOR 1.5 without Java: the scores of the program for English with ``-norm``.

The captions of large test sets are shared with a second process.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np

from vidcap_jax.evaluation import meteor, meteor_words
from vidcap_jax.evaluation.java import choose_program
from vidcap_jax.evaluation.meteor_paraphrases import Paraphrases, read_entries
from vidcap_jax.evaluation.meteor_statistics import Videos, best_statistics, split_videos
from vidcap_jax.evaluation.meteor_worker import Worker

# References of a single scoring from which METEOR runs in Python, and in two processes if there are
# two processors.
MANY_REFERENCES = 20_000


def choose_meteor(program: str, references: Iterable[Sequence[str]]) -> str:
  """The program for a single scoring of videos, 'java' or 'python'.

  For 'auto' that is Python for many references, as it is faster. Elsewhere it is Java, if there is
  one: it reads the table of paraphrases once for several scorings.

  Args:
    program: one of ``java.PROGRAMS``.
    references: of each video.

  Raises:
    ConfigError: an unknown program.
    MetricError: Java is asked for, and none works.
  """
  many = program == 'auto' and sum(map(len, references)) >= MANY_REFERENCES
  return 'python' if many else choose_program('meteor', program)


def _processors() -> int:
  return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


class PythonMeteor:
  """METEOR without Java, a ``meteor.MeteorProgram``.

  Args:
    references: number of references that will be scored at once; if there are many, the second
      process starts now.
  """

  def __init__(self, references: int = 0):
    self._worker: Worker | None = None
    if _is_shared(references):
      self._worker = Worker()

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *unused) -> None:
    if self._worker:
      self._worker.close()
      self._worker = None

  def score_with_statistics(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
  ) -> tuple[float, list[float], np.ndarray]:
    """See ``meteor.MeteorProgram``."""
    best = self._best(hypotheses, references, label)
    scores = meteor.score_of_statistics(best)
    return float(meteor.score_of_statistics(best.sum(axis=0))), scores.tolist(), best

  def _best(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str
  ) -> np.ndarray:
    """The statistics (N, 23) of each caption and its best reference."""
    if not _is_shared(sum(map(len, references))):
      videos = split_videos(hypotheses, references)
      return best_statistics(videos, videos.paraphrases(), label)
    if not self._worker:
      self._worker = Worker()
    half = len(hypotheses) // 2
    self._worker.send(hypotheses, references, half)
    videos = split_videos(hypotheses[:half], references[:half])
    _ = videos.vocabulary  # while the worker reads the table of paraphrases
    first = best_statistics(videos, self._worker.paraphrases(), label)
    return np.concatenate([first, self._worker.statistics()])


class ReferencesMeteor:
  """METEOR without Java against references that are known from the start.

  Like a process of Java, it reads the table of paraphrases once for any number of scorings. It
  keeps the entries whose one phrase is in a reference and whose other phrase has known words.

  Args:
    references: tokenised captions of each video.
    words: that captions are made of. Another word is learned when it comes, by reading the table
      again, which takes seconds.
  """

  def __init__(self, references: Sequence[Sequence[str]], words: Iterable[str]):
    self._videos = split_videos([], references)
    self._words = {part for word in words for part in meteor_words.normalize(word)}
    self._paraphrases = self._read_paraphrases()

  def score(self, hypotheses: Sequence[str], rows: Sequence[int]) -> np.ndarray:
    """The scores of captions, (N,).

    Args:
      hypotheses: tokenised captions.
      rows: the video of each one, an index into the references.
    """
    captions = split_videos(hypotheses, []).captions
    new = {word for caption in captions for word in caption.words} - self._words
    if new:
      self._words |= new
      self._paraphrases = self._read_paraphrases()
    videos = Videos(captions, [self._videos.references[row] for row in rows])
    return meteor.score_of_statistics(best_statistics(videos, self._paraphrases))

  def _read_paraphrases(self) -> Paraphrases:
    phrases = self._videos.reference_phrases()
    return Paraphrases(read_entries(phrases, self._words, of_references=True))


def _is_shared(references: int) -> bool:
  """Whether two processes score so many references."""
  return references >= MANY_REFERENCES and _processors() > 1
