"""METEOR's table of paraphrases, ``paraphrase-en.gz``, which pycocoevalcap ships.

It has 5,274,084 entries of three lines: a probability, a phrase and its paraphrase. Only the
entries that can match the captions at hand are kept.
"""

import pathlib
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import IO, NamedTuple

import numpy as np

from vidcap_jax.evaluation import java

LONGEST = 7  # words of the longest phrase

_BLOCK = 1 << 20  # bytes read at a time, a fifth of the text
_HASH_BITS = 24

# An occurrence of a phrase: the number of the caption, the first word, the number of words.
Occurrence = tuple[int, int, int]

Entries = dict[str, dict[str, list[tuple[int, int]]]]


class Paraphrases:
  """Phrases of captions and of references that METEOR takes for the same.

  Args:
    entries: {phrase of a caption: {phrase of a reference: [(direction, place in the table)]}}, of
      ``read_entries``.
  """

  def __init__(self, entries: Entries):
    self.entries = entries
    self._known = {other for found in entries.values() for other in found}
    # Of the phrases that start with two words, the words of the longest.
    self._longest: dict[tuple[str, str], int] = {}
    for phrase in self._known:
      first, *others = phrase.split(' ')
      if others:
        start = first, others[0]
        self._longest[start] = max(len(others) + 1, self._longest.get(start, 0))

  def occurrences(self, captions: Sequence[Sequence[str]]) -> dict[str, list[Occurrence]]:
    """Where captions, such as the references of a video, have phrases that are in entries."""
    found: dict[str, list[Occurrence]] = {}
    for number, words in enumerate(captions):
      for start, pair in enumerate(zip(words, (*words[1:], ''))):  # no pair without words
        if pair[0] in self._known:
          found.setdefault(pair[0], []).append((number, start, 1))
        longest = self._longest.get(pair, 1)
        for end in range(start + 2, min(start + longest, len(words)) + 1):
          phrase = ' '.join(words[start:end])
          if phrase in self._known:
            found.setdefault(phrase, []).append((number, start, end - start))
    return found

  def of(self, phrase: str) -> Mapping[str, Sequence[tuple[int, int]]]:
    """The entries of a caption's phrase."""
    return self.entries.get(phrase, {})


def read_entries(
  phrases: Collection[str], words: Collection[str], *, of_references: bool = False
) -> Entries:
  """The entries of the table that captions and references have.

  Args:
    phrases: those of one side, of up to ``LONGEST`` words, joined by spaces: of the captions, or of
      the references.
    words: all words of the other side.
    of_references: whether the phrases are those of the references.

  Returns:
    See ``Paraphrases``. The direction is 0 where the table has the reference's phrase first, and 1
    where the caption's.
  """
  given = {phrase.encode() for phrase in phrases}
  wanted = _Wanted(given, {word.encode() for word in words}, of_references, _buckets(given))
  entries: Entries = {}
  place = 0
  with pathlib.Path(java.packaged('meteor', 'data/paraphrase-en.gz')).open('rb') as file:
    for text in _whole_entries(file):
      place += _add(entries, text, place, wanted)
  return entries


class _Wanted(NamedTuple):
  """What entries are kept: phrases of one side, words of the other, and the phrases' hashes."""

  phrases: set[bytes]
  words: set[bytes]
  of_references: bool
  filled: np.ndarray


def _add(entries: Entries, text: bytes, place: int, wanted: _Wanted) -> int:
  """Adds the entries of a part of the table; returns their number, with those left out."""
  starts, ends = _lines(text)
  words = _words(text)
  # The lines of an entry are a probability and two phrases, each the caption's in one direction.
  for direction, given, other in ((wanted.of_references, 2, 1), (not wanted.of_references, 1, 2)):
    hashes = _hashes(words, starts[given::3], ends[given::3])
    for i in np.flatnonzero(wanted.filled[hashes]).tolist():
      phrase = text[starts[3 * i + given] : ends[3 * i + given]]
      others = text[starts[3 * i + other] : ends[3 * i + other]]
      if phrase in wanted.phrases and wanted.words.issuperset(others.split(b' ')):
        own, paraphrase = (others, phrase) if wanted.of_references else (phrase, others)
        found = entries.setdefault(own.decode(), {})
        found.setdefault(paraphrase.decode(), []).append((int(direction), place + i))
  return len(starts) // 3


def _buckets(phrases: Collection[bytes]) -> np.ndarray:
  """Whether a phrase has a hash: (2 ** _HASH_BITS,) bool."""
  filled = np.zeros(1 << _HASH_BITS, bool)
  text = b''.join(phrase + b'\n' for phrase in phrases)
  filled[_hashes(_words(text), *_lines(text))] = True
  return filled


def _lines(text: bytes) -> tuple[np.ndarray, np.ndarray]:
  """Starts and ends of lines."""
  ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord('\n'))
  return np.concatenate([[0], ends[:-1] + 1])[: len(ends)], ends


def _words(text: bytes) -> np.ndarray:
  """The 8 bytes at each place, with zeros after the end."""
  return np.ndarray((len(text) + 1,), '<u8', text + bytes(8), strides=(1,))


def _hashes(words: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
  """Hashes of lines, which depend on their length and first and last 8 bytes.

  Args:
    words: of ``_words``.
    starts, ends: of the lines.
  """
  lengths = ends - starts
  # Of shorter lines all bytes, and zeros after them.
  kept = np.uint64(0xFFFFFFFFFFFFFFFF) >> (8 * (8 - np.minimum(lengths, 8))).astype(np.uint64)
  kept[lengths == 0] = 0
  first = words[starts] & kept
  last = words[np.maximum(ends - 8, starts)] & kept
  mixed = first * np.uint64(0x9E3779B97F4A7C15) ^ last * np.uint64(0xC2B2AE3D27D4EB4F)
  mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
  mixed += lengths.astype(np.uint64) * np.uint64(0x94D049BB133111EB)
  return (mixed >> np.uint64(64 - _HASH_BITS)).astype(np.int64)


def _whole_entries(file: IO[bytes]) -> Iterator[bytes]:
  """The text of a gzip file, some whole entries at a time."""
  decompress = zlib.decompressobj(wbits=31)
  rest = b''
  while block := file.read(_BLOCK):
    text = rest + decompress.decompress(block)
    lines = np.count_nonzero(np.frombuffer(text, np.uint8) == ord('\n'))  # faster than bytes.count
    end = len(text)
    for _ in range(lines % 3 + 1):  # without the unfinished entry
      end = text.rindex(b'\n', 0, end)
    yield text[: end + 1]
    rest = text[end + 1 :]
