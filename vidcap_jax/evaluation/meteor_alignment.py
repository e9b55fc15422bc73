"""METEOR's alignment of two captions: the matches that cover most words in the fewest chunks.

Denkowski and Lavie, "Meteor Universal", 2014, section 2.1. Ties and the beam are resolved as METEOR
1.5 does, since other alignments of the same size have other scores.
"""

import dataclasses
import functools
from collections.abc import Sequence

BEAM = 40

# A match: (words of the reference, start in the caption, words of the caption, stage). Stages are
# 0 exact, 1 stem, 2 synonym, 3 paraphrase. It starts at the reference's word it is listed for.
Match = tuple[int, int, int, int]
Matches = tuple[tuple[Match, ...], ...]  # for each word of the reference, in METEOR's order


@dataclasses.dataclass(frozen=True)
class Alignment:
  """The matches chosen, and the number of chunks that they form.

  Attributes:
    matches: start in the reference and the match.
    chunks: runs of matches that are adjacent and in the same order in both captions.
  """

  matches: tuple[tuple[int, Match], ...]
  chunks: int


@dataclasses.dataclass(slots=True)
class _Path:
  """A partial alignment of the search, in the order of the reference's words.

  Attributes:
    matched: words matched; of those that are no exact match, METEOR counts half, rounded down.
    chunks: closed ones.
    distance: between the places of matched words.
    used: bits of the caption's words.
    used_reference: bits of the reference's words.
    next: word of the reference after the last match.
    end: word of the caption after the last match; -1: no open chunk.
    chosen: the matches, the last first, as nested pairs.
  """

  matched: int
  chunks: int
  distance: int
  used: int
  used_reference: int
  next: int
  end: int
  chosen: tuple | None

  def rank(self) -> tuple[int, int, int]:
    return -self.matched, self.chunks, self.distance

  def with_match(self, start: int, match: Match) -> '_Path':
    """The path with one more match; its distance is added by the caller."""
    length, other, other_length, stage = match
    whole = stage == 0
    return _Path(
      self.matched + (length + other_length if whole else length // 2 + other_length // 2),
      self.chunks + (self.end not in (-1, other)),
      self.distance,
      self.used | _bits(other, other_length),
      self.used_reference | _bits(start, length),
      start + length,
      other + other_length,
      ((start, match), self.chosen),
    )


def _bits(start: int, length: int) -> int:
  return ((1 << length) - 1) << start


@functools.lru_cache(maxsize=1 << 16)
def align(matches: Matches) -> Alignment:
  """The best alignment.

  Args:
    matches: all possible ones, for each word of the reference.
  """
  fixed = _fixed(matches)
  if sum(map(len, matches)) == len(fixed):
    chosen = tuple(fixed.items())
  else:
    chosen = _search(matches, fixed)
  return Alignment(chosen, _chunks(chosen))


def _fixed(matches: Matches) -> dict[int, Match]:
  """The matches that share no word with another, by start in the reference."""
  coverage: dict[int, int] = {}
  reference_coverage: dict[int, int] = {}
  for start, options in enumerate(matches):
    for length, other, other_length, _ in options:
      for i in range(start, start + length):
        reference_coverage[i] = reference_coverage.get(i, 0) + 1
      for i in range(other, other + other_length):
        coverage[i] = coverage.get(i, 0) + 1
  return {
    start: options[0]
    for start, options in enumerate(matches)
    if len(options) == 1
    and all(reference_coverage[i] == 1 for i in range(start, start + options[0][0]))
    and all(coverage[i] == 1 for i in range(options[0][1], options[0][1] + options[0][2]))
  }


def _search(matches: Matches, fixed: dict[int, Match]) -> tuple[tuple[int, Match], ...]:
  """A beam search over the words of the reference, from left to right."""
  used = used_reference = 0
  for start, (length, other, other_length, _) in fixed.items():
    used |= _bits(other, other_length)
    used_reference |= _bits(start, length)
  paths = [_Path(0, 0, 0, used, used_reference, 0, -1, None)]
  for start, options in enumerate(matches):
    paths.sort(key=_Path.rank)
    following: list[_Path] = []
    for path in paths[:BEAM]:
      if path.used_reference >> start & 1:
        if start >= path.next:
          path = path.with_match(start, fixed[start])
          path.distance += abs(start - fixed[start][1])
        following.append(path)
      else:
        _extend(path, start, options, following)
    paths = following
  paths.sort(key=_Path.rank)
  for path in paths[:BEAM]:
    path.chunks += path.end != -1
  paths = sorted(paths[:BEAM], key=_Path.rank)
  chosen = []
  link = paths[0].chosen
  while link:
    pair, link = link
    chosen.append(pair)
  return tuple(reversed(chosen))


def _extend(path: _Path, start: int, options: Sequence[Match], following: list[_Path]) -> None:
  """Adds the path with each match that starts at a word, and without one."""
  for match in options:
    length, other, other_length, _ = match
    if path.used & _bits(other, other_length) or path.used_reference & _bits(start, length):
      continue
    # METEOR adds a match's distance to the path without it, so only later ones have it.
    following.append(path.with_match(start, match))
    path.distance += abs(start - other)
  if path.end != -1:
    path.chunks += 1
    path.end = -1
  path.next += 1
  following.append(path)


def _chunks(chosen: Sequence[tuple[int, Match]]) -> int:
  chunks, after, end = 0, -1, -1
  for start, (length, other, other_length, _) in chosen:
    chunks += start != after or other != end
    after, end = start + length, other + other_length
  return chunks
