"""METEOR 1.5 without Java: the scores of the program for English with ``-norm``.

Denkowski and Lavie, "Meteor Universal: Language Specific Translation Evaluation for Any Target
Language", 2014. Words match if they are equal, have the same stem, share a synonym set of WordNet,
or stand in phrases that METEOR's table has as paraphrases.
"""

import concurrent.futures
import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Self

import numpy as np

from vidcap_jax.evaluation import meteor, meteor_words
from vidcap_jax.evaluation.java import MetricError, choose_program, tail
from vidcap_jax.evaluation.meteor_alignment import Match, Matches, align
from vidcap_jax.evaluation.meteor_paraphrases import LONGEST, Paraphrases
from vidcap_jax.progress import progress

# References from which a second process pays, which reads the table of paraphrases too.
PARALLEL_CAPTIONS = 20_000


def choose_meteor(program: str, references: Iterable[Sequence[str]]) -> str:
  """The program for a single scoring of videos, 'java' or 'python'.

  For 'auto' that is Python where two processes of it pay, which are faster, and elsewhere Java,
  if there is one.

  Args:
    program: one of ``java.PROGRAMS``.
    references: of each video.

  Raises:
    ConfigError: an unknown program.
    MetricError: Java is asked for, and none works.
  """
  many = program == 'auto' and sum(map(len, references)) >= PARALLEL_CAPTIONS
  return 'python' if many and _processors() > 1 else choose_program('meteor', program)


def _processors() -> int:
  return len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count() or 1


class PythonMeteor:
  """METEOR without Java, a ``meteor.MeteorProgram``."""

  def __enter__(self) -> Self:
    return self

  def __exit__(self, *unused) -> None:
    pass

  def score_with_statistics(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
  ) -> tuple[float, list[float], np.ndarray]:
    """See ``meteor.MeteorProgram``."""
    best = _best_in_parallel(hypotheses, references, label)
    scores = meteor.score_of_statistics(best)
    return float(meteor.score_of_statistics(best.sum(axis=0))), scores.tolist(), best


def best_statistics(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
) -> np.ndarray:
  """The statistics (N, 23) of each caption and its best reference, by this process alone."""
  captions = [
    _Caption(meteor_words.normalize(text.replace('|||', '').replace('  ', ' ')))
    for text in hypotheses
  ]
  others = [[_Words(meteor_words.normalize(text)) for text in texts] for texts in references]
  words = {word for texts in others for text in texts for word in text.words}
  vocabulary = meteor_words.Vocabulary(words)
  paraphrases = Paraphrases({phrase for c in captions for phrase in c.phrases}, words)
  videos: Iterable[tuple[_Caption, list[_Words]]] = zip(captions, others, strict=True)
  if label:
    videos = progress(videos, len(captions), label)
  return np.stack(
    [
      _best([_statistics(*pair) for pair in _pairs(*video, vocabulary, paraphrases)])
      for video in videos
    ]
  )


def _best_in_parallel(
  hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str
) -> np.ndarray:
  """``best_statistics``, of many captions by two processes."""
  N = len(hypotheses)
  if sum(map(len, references)) < PARALLEL_CAPTIONS or _processors() < 2:
    return best_statistics(hypotheses, references, label)
  half = N // 2
  given = json.dumps([list(hypotheses[half:]), [list(texts) for texts in references[half:]]])
  command = [sys.executable, '-m', 'vidcap_jax.evaluation.meteor_worker']
  with (
    subprocess.Popen(
      command,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      start_new_session=True,  # so Ctrl-C doesn't end it: training still scores its last step
    ) as process,
    concurrent.futures.ThreadPoolExecutor(1) as pool,
  ):
    other_half = pool.submit(process.communicate, given.encode())
    first = best_statistics(hypotheses[:half], references[:half], label)
    written, stderr = other_half.result()
  if process.returncode != 0:
    raise MetricError(
      f'{" ".join(command[1:])} ended with exit status {process.returncode}: {tail(stderr)}'
    )
  return np.concatenate([first, np.load(io.BytesIO(written))])


def _best(statistics: Sequence[Sequence[int]]) -> np.ndarray:
  """The statistics (23,) with the best score; the first of equal ones."""
  table = np.array(statistics, float)
  return table[np.argmax(meteor.score_of_statistics(table))]


class _Words:
  """A caption's words and which of them are function words."""

  def __init__(self, words: list[str]):
    self.words = words
    self.is_function = [word in meteor_words.function_words() for word in words]
    self.functions = sum(self.is_function)


class _Caption(_Words):
  """A caption that is scored, with the starts and lengths of its phrases."""

  def __init__(self, words: list[str]):
    super().__init__(words)
    self.phrases = _phrases(words)


def _phrases(words: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
  """The starts and lengths of a caption's phrases."""
  found: dict[str, list[tuple[int, int]]] = {}
  for start in range(len(words)):
    for end in range(start + 1, min(start + LONGEST, len(words)) + 1):
      found.setdefault(' '.join(words[start:end]), []).append((start, end - start))
  return found


def _pairs(
  caption: _Caption,
  references: Sequence[_Words],
  vocabulary: meteor_words.Vocabulary,
  paraphrases: Paraphrases,
) -> Iterator[tuple[_Caption, _Words, Matches]]:
  """The caption with each reference, and their possible matches."""
  by_word = _word_matches(caption, {w for r in references for w in r.words}, vocabulary)
  by_phrase = _phrase_matches(caption, references, paraphrases)
  for number, reference in enumerate(references):
    matches = [by_word.get(word, ()) for word in reference.words]
    if reference.words == caption.words:
      matches = [tuple(match for match in options if match[3] == 0) for options in matches]
    else:
      for start, found in by_phrase.get(number, {}).items():
        matches[start] += tuple(match for _, match in sorted(found))
    yield caption, reference, tuple(matches)


def _word_matches(
  caption: _Caption, words: Collection[str], vocabulary: meteor_words.Vocabulary
) -> dict[str, tuple[Match, ...]]:
  """The matches of each word of references with single words, by stage and place."""
  found: dict[str, list[tuple[int, int]]] = {}
  for place, own_word in enumerate(caption.words):
    related = vocabulary.related(own_word)
    for word in related.keys() & words:
      found.setdefault(word, []).extend((stage, place) for stage in related[word])
  return {
    word: tuple((1, place, 1, stage) for stage, place in sorted(places))
    for word, places in found.items()
  }


def _phrase_matches(
  caption: _Caption, references: Sequence[_Words], paraphrases: Paraphrases
) -> dict[int, dict[int, list[tuple[tuple[int, int, int, int], Match]]]]:
  """The matches by paraphrases, with METEOR's order: {reference: {start: [(order, match)]}}."""
  occurrences = paraphrases.occurrences([reference.words for reference in references])
  found: dict[int, dict[int, list]] = {}
  for phrase, own_places in caption.phrases.items():
    entries = paraphrases.of(phrase)
    for other in entries.keys() & occurrences.keys():
      pairs = itertools.product(entries[other], occurrences[other], own_places)
      for (direction, place), (number, start, length), (own_start, own_length) in pairs:
        order = (1, own_start, own_length, place) if direction else (0, length, place, own_start)
        match = (length, own_start, own_length, 3)
        found.setdefault(number, {}).setdefault(start, []).append((order, match))
  return found


def _statistics(caption: _Caption, reference: _Words, matches: Matches) -> list[int]:
  """What the score of a caption and a reference is computed from, 23 numbers."""
  alignment = align(matches)
  counts = [len(caption.words), len(reference.words), caption.functions, reference.functions]
  counts += [0] * 16  # for each stage the content words of both, and the function words of both
  covered = other_covered = 0
  for start, (length, other, other_length, stage) in alignment.matches:
    content = 4 + 4 * stage
    for i in range(other, other + other_length):
      counts[content + 2 * caption.is_function[i]] += 1
    for i in range(start, start + length):
      counts[content + 1 + 2 * reference.is_function[i]] += 1
    covered += other_length
    other_covered += length
  # Captions that match whole in one chunk have no penalty.
  whole = alignment.chunks == 1 and [covered, other_covered] == counts[:2]
  return [*counts, 0 if whole else alignment.chunks, covered, other_covered]
