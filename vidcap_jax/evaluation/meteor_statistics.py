"""What METEOR's scores are computed from, of captions and their best references, without Java.

Denkowski and Lavie, "Meteor Universal: Language Specific Translation Evaluation for Any Target
Language", 2014. Words match if they are equal, have the same stem, share a synonym set of WordNet,
or stand in phrases that METEOR's table has as paraphrases.
"""

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

import numpy as np

from vidcap_jax.evaluation import meteor, meteor_words
from vidcap_jax.evaluation.meteor_alignment import Match, Matches, align
from vidcap_jax.evaluation.meteor_paraphrases import LONGEST, Paraphrases, read_entries
from vidcap_jax.progress import progress

# The stages by weight, the least first, and the place of each stage in that order.
_STAGES = np.argsort(meteor.STAGE_WEIGHTS, kind='stable').tolist()
_PLACES = np.argsort(_STAGES).tolist()
_ROUNDING = 1e-9  # of scores and their bounds


@dataclasses.dataclass(frozen=True)
class Videos:
  """Words of captions and of references, as METEOR compares them."""

  captions: Sequence['_Caption']
  references: Sequence[Sequence['_Words']]

  @functools.cached_property
  def words(self) -> set[str]:
    """Those of all references."""
    return {word for texts in self.references for text in texts for word in text.words}

  @functools.cached_property
  def vocabulary(self) -> meteor_words.Vocabulary:
    """The words of the references by their keys, stems and synonyms."""
    return meteor_words.Vocabulary(self.words)

  def paraphrases(self) -> Paraphrases:
    """The entries of METEOR's table that the captions and references have, in 2 seconds."""
    phrases = {phrase for caption in self.captions for phrase in caption.phrases}
    return Paraphrases(read_entries(phrases, self.words))

  def reference_phrases(self) -> set[str]:
    """The phrases of all references, of up to ``LONGEST`` words, joined by spaces."""
    texts = (text for texts in self.references for text in texts)
    return {phrase for text in texts for phrase in _phrases(text.words)}

  def from_video(self, number: int) -> 'Videos':
    """Without the videos before a number."""
    return Videos(self.captions[number:], self.references[number:])


def split_videos(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Videos:
  """The words of tokenised captions, one a video, and of each video's references."""
  captions = [
    _Caption(meteor_words.normalize(text.replace('|||', '').replace('  ', ' ')))
    for text in hypotheses
  ]
  return Videos(captions, [[_Words(meteor_words.normalize(t)) for t in ts] for ts in references])


def best_statistics(videos: Videos, paraphrases: Paraphrases, label: str = '') -> np.ndarray:
  """The statistics (N, 23) of each caption and its best reference.

  Args:
    videos: of ``split_videos``.
    paraphrases: those of the videos, and perhaps of others.
    label: of a progress line over the videos, on stderr; '' shows none.
  """
  pairs: Iterable[tuple[_Caption, Sequence[_Words]]] = zip(
    videos.captions, videos.references, strict=True
  )
  if label:
    pairs = progress(pairs, len(videos.captions), label)
  return np.stack([_best(list(_pairs(*video, videos.vocabulary, paraphrases))) for video in pairs])


def _best(pairs: Sequence['_Pair']) -> np.ndarray:
  """The statistics (23,) with the best score; the first of equal ones.

  Most references need no alignment: their scores' bounds are below the best score.
  """
  bounds = meteor.score_of_statistics(np.array([_bound(*pair) for pair in pairs], float))
  scores = np.full(len(pairs), -1.0)
  tables: dict[int, np.ndarray] = {}
  for number in np.argsort(-bounds):
    if bounds[number] < scores.max() - _ROUNDING:
      break
    tables[number] = np.array(_statistics(*pairs[number]), float)
    scores[number] = meteor.score_of_statistics(tables[number])
  return tables[int(np.argmax(scores))]


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


_Pair = tuple[_Caption, _Words, Matches]


def _pairs(
  caption: _Caption,
  references: Sequence[_Words],
  vocabulary: meteor_words.Vocabulary,
  paraphrases: Paraphrases,
) -> Iterator[_Pair]:
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
  return _count(caption, reference, alignment.matches, alignment.chunks)


def _bound(caption: _Caption, reference: _Words, matches: Matches) -> list[int]:
  """Statistics whose score is at least that of any alignment: each word has its best match, and all
  are one chunk."""
  pairs = [(start, match) for start, found in enumerate(matches) for match in found]
  return _count(caption, reference, pairs, 1)


def _count(
  caption: _Caption, reference: _Words, matches: Iterable[tuple[int, Match]], chunks: int
) -> list[int]:
  """The statistics of matches, each with its start in the reference."""
  places, other_places = [-1] * len(caption.words), [-1] * len(reference.words)
  for start, (length, other, other_length, stage) in matches:
    place = _PLACES[stage]
    for i in range(other, other + other_length):
      places[i] = max(places[i], place)
    for i in range(start, start + length):
      other_places[i] = max(other_places[i], place)
  counts = [len(caption.words), len(reference.words), caption.functions, reference.functions]
  counts += [0] * 16  # for each stage the content words of both, and the function words of both
  matched = [0, 0]
  for text, (words, found) in enumerate(((caption, places), (reference, other_places))):
    for is_function, place in zip(words.is_function, found, strict=True):
      if place >= 0:
        counts[4 + 4 * _STAGES[place] + 2 * is_function + text] += 1
        matched[text] += 1
  # Captions that match whole in one chunk have no penalty.
  whole = chunks == 1 and matched == counts[:2]
  return [*counts, 0 if whole else chunks, *matched]
