"""METEOR 1.5 without Java: the scores of the program for English with ``-norm``.

Denkowski and Lavie, "Meteor Universal: Language Specific Translation Evaluation for Any Target
Language", 2014. Words match if they are equal, have the same stem, share a synonym set of WordNet,
or stand in phrases that METEOR's table has as paraphrases.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from vidcap_jax.evaluation import meteor, meteor_words
from vidcap_jax.evaluation.meteor_alignment import Match, Matches, align
from vidcap_jax.progress import progress

_Tables = tuple[Mapping[str, Mapping[str, int]], Mapping[str, Mapping[str, int]]]


class PythonMeteor:
  """METEOR without Java, with the interface of ``meteor.Meteor``."""

  def __enter__(self) -> 'PythonMeteor':
    return self

  def __exit__(self, *unused) -> None:
    pass

  def score(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
  ) -> tuple[float, list[float]]:
    """The corpus score and one score per video; arguments as of the next method."""
    corpus, videos, _ = self.score_with_statistics(hypotheses, references)
    return corpus, videos

  def score_with_statistics(
    self, hypotheses: Sequence[str], references: Sequence[Sequence[str]], label: str = ''
  ) -> tuple[float, list[float], np.ndarray]:
    """The corpus score, one score per video, and what both are computed from.

    Args:
      hypotheses: one tokenised caption per video.
      references: each video's tokenised references, in the same order.
      label: of a progress line over the videos, on stderr; '' shows none.

    Returns:
      The last are statistics (N, 23) of the videos, see ``meteor.score_of_statistics``, of the
      reference with the best score.
    """
    captions = [
      _Caption(meteor_words.normalize(text.replace('|||', '').replace('  ', ' ')))
      for text in hypotheses
    ]
    others = [[_Words(meteor_words.normalize(text)) for text in texts] for texts in references]
    phrases = {phrase for caption in captions for phrase in caption.phrases}
    words = {word for texts in others for text in texts for word in text.words}
    tables = meteor_words.read_paraphrases(phrases, words)
    known = {p for table in tables for found in table.values() for p in found}
    videos: Iterable[tuple[_Caption, list[_Words]]] = zip(captions, others, strict=True)
    if label:
      videos = progress(videos, len(captions), label)
    best = np.stack(
      [_best([_statistics(*pair) for pair in _pairs(*video, tables, known)]) for video in videos]
    )
    scores = meteor.score_of_statistics(best)
    return float(meteor.score_of_statistics(best.sum(axis=0))), scores.tolist(), best


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
  """A caption that is scored, with the places of its words by what matches compare."""

  def __init__(self, words: list[str]):
    super().__init__(words)
    self.keys = [meteor_words.key(word) for word in words]
    self.by_key: dict[int, list[int]] = {}
    self.by_stem: dict[int, list[int]] = {}
    self.by_synset: dict[int, set[int]] = {}
    for place, word in enumerate(words):
      self.by_key.setdefault(self.keys[place], []).append(place)
      self.by_stem.setdefault(meteor_words.stem_key(word), []).append(place)
      for synset in meteor_words.synsets(word):
        self.by_synset.setdefault(synset, set()).add(place)
    self.phrases = _phrases(words)
    self._matches: dict[str, list[Match]] = {}

  def matches(self, word: str) -> list[Match]:
    """The matches of a word of a reference, by stage and place."""
    found = self._matches.get(word)
    if found is None:
      found = self._matches[word] = self._find(word)
    return found

  def _find(self, word: str) -> list[Match]:
    key = meteor_words.key(word)
    stems = self.by_stem.get(meteor_words.stem_key(word), ())
    synsets = meteor_words.synsets(word) & self.by_synset.keys()
    synonyms = sorted({place for synset in synsets for place in self.by_synset[synset]})
    return [
      *((1, place, 1, 0) for place in self.by_key.get(key, ())),
      *((1, place, 1, 1) for place in stems if self.keys[place] != key),
      *((1, place, 1, 2) for place in synonyms if self.keys[place] != key),
    ]


def _phrases(words: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
  """The starts and lengths of a caption's phrases."""
  found: dict[str, list[tuple[int, int]]] = {}
  for start in range(len(words)):
    for end in range(start + 1, min(start + meteor_words.LONGEST_PHRASE, len(words)) + 1):
      found.setdefault(' '.join(words[start:end]), []).append((start, end - start))
  return found


def _pairs(
  caption: _Caption, references: Sequence[_Words], tables: _Tables, known: Collection[str]
) -> Iterator[tuple[_Caption, _Words, Matches]]:
  """The caption with each reference, and their possible matches."""
  paraphrases = _paraphrases(caption, references, tables, known)
  for number, reference in enumerate(references):
    if reference.words == caption.words:
      matches = [tuple(m for m in caption.matches(w) if m[3] == 0) for w in reference.words]
    else:
      matches = [tuple(caption.matches(word)) for word in reference.words]
      for start, found in paraphrases.get(number, {}).items():
        matches[start] += tuple(match for _, match in sorted(found))
    yield caption, reference, tuple(matches)


def _paraphrases(
  caption: _Caption, references: Sequence[_Words], tables: _Tables, known: Collection[str]
) -> dict[int, dict[int, list[tuple[tuple[int, int, int, int], Match]]]]:
  """The matches by paraphrases, with METEOR's order: {reference: {start: [(order, match)]}}."""
  places: dict[str, list[tuple[int, int, int]]] = {}
  for number, reference in enumerate(references):
    for phrase, starts in _phrases(reference.words).items():
      if phrase in known:
        places.setdefault(phrase, []).extend((number, *start) for start in starts)
  found: dict[int, dict[int, list]] = {}
  for phrase, starts in caption.phrases.items():
    for direction, table in enumerate(tables):
      entries = table.get(phrase)
      if not entries:
        continue
      for other in entries.keys() & places.keys():
        for number, start, length in places[other]:
          for own_start, own_length in starts:
            order = (
              (0, length, entries[other], own_start)
              if direction == 0
              else (1, own_start, own_length, entries[other])
            )
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
