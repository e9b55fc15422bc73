"""METEOR's alignment of two captions: the matches that cover most words in the fewest chunks.

Denkowski and Lavie, "Meteor Universal", 2014, section 2.1. Ties and the beam are resolved as METEOR
1.5 does, since other alignments of the same size have other scores.
"""

import dataclasses
import functools
import operator
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


# A partial alignment, a tuple for speed: minus the words matched, of which METEOR counts half,
# rounded down, where they are not equal; closed chunks; the distance between places; the bits of
# used words of the caption and of the reference; the reference's word after the last match; the
# caption's word after it, or -1 for no open chunk; the matches, the last first, as nested pairs.
_Path = tuple[int, int, int, int, int, int, int, tuple | None]
_rank = operator.itemgetter(0, 1, 2)


# A possible match with what the search needs of it, as a tuple: the bits of its words in the
# caption and in the reference; the words matched; the distance; the caption's first word; the
# reference's word after it; the caption's word after it; the start in the reference and the match.
_Option = tuple[int, int, int, int, int, int, int, tuple[int, Match]]


@functools.lru_cache(maxsize=1 << 14)
def _option(start: int, match: Match) -> _Option:
  length, other, other_length, stage = match
  matched = length // 2 + other_length // 2 if stage else length + other_length
  used, used_reference = _bits(other, other_length), _bits(start, length)
  ends = start + length, other + other_length
  return used, used_reference, matched, abs(start - other), other, *ends, (start, match)


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
  paths: list[_Path] = [(0, 0, 0, used, used_reference, 0, -1, None)]
  for start, found in enumerate(matches):
    options = [_option(start, match) for match in found]
    following: list[_Path] = []
    for path in _best(paths):
      if not path[4] >> start & 1:
        _extend(path, options, following)
      elif start < path[5]:
        following.append(path)
      else:  # a fixed match
        following.append(_with_fixed(path, options[0]))
    paths = following
  closed = [(path[0], path[1] + (path[6] != -1), path[2], path[7]) for path in _best(paths)]
  link = min(closed, key=_rank)[3]  # the first of equal ones, as of a stable sort
  chosen = []
  while link:
    pair, link = link
    chosen.append(pair)
  return tuple(reversed(chosen))


def _best(paths: list[_Path]) -> list[_Path]:
  """The beam, best first; of equal ones the first come first."""
  if len(paths) > 1:
    paths.sort(key=_rank)
  return paths[:BEAM]


def _extend(path: _Path, options: Sequence[_Option], following: list[_Path]) -> None:
  """Adds the path with each match that starts at a word, and without one."""
  matched, chunks, distance, used, used_reference, after, end, chosen = path
  with_chunk = chunks + (end != -1)
  for own, reference, words, apart, first, next_after, next_end, pair in options:
    if not (used & own or used_reference & reference):
      following.append(
        (
          matched - words,
          chunks if first == end else with_chunk,
          distance,
          used | own,
          used_reference | reference,
          next_after,
          next_end,
          (pair, chosen),
        )
      )
      # METEOR adds a match's distance to the path without it, so only later ones have it.
      distance += apart
  following.append((matched, with_chunk, distance, used, used_reference, after + 1, -1, chosen))


def _with_fixed(path: _Path, option: _Option) -> _Path:
  """The path with a match that shares no word with another."""
  matched, chunks, distance, used, used_reference, _, end, chosen = path
  own, reference, words, apart, first, next_after, next_end, pair = option
  chunks += end not in (-1, first)
  used, used_reference = used | own, used_reference | reference
  ends = next_after, next_end
  return matched - words, chunks, distance + apart, used, used_reference, *ends, (pair, chosen)


def _chunks(chosen: Sequence[tuple[int, Match]]) -> int:
  chunks, after, end = 0, -1, -1
  for start, (length, other, other_length, _) in chosen:
    chunks += start != after or other != end
    after, end = start + length, other + other_length
  return chunks
