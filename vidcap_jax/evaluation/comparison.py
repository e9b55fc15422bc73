"""Tests whether the captions of two systems differ in their scores, on the same videos.

The paired bootstrap (Koehn 2004) draws videos with replacement, and approximate randomization
(Riezler and Maxwell 2005) exchanges the captions of the two systems in a random half of the videos.
Randomization is that of sacrebleu. Its bootstrap draws the same, but centres the sizes of the drawn
differences in place of the differences, which makes p values too small where systems do not differ;
``python -m benchmarks.intervals`` shows both.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.errors import DataError, UserError, first_few
from vidcap_jax.evaluation.intervals import DRAWS, Interval, Statistics, draw_weights, ends
from vidcap_jax.evaluation.signature import Signature

_CHUNK = 200_000  # exchanged videos at a time
_EQUAL = 1e-12  # differences that are as large but for rounding


@dataclasses.dataclass(frozen=True)
class Difference:
  """A metric of two systems.

  Attributes:
    first, second: the scores.
    difference: the second minus the first.
    interval: 95 %, of the difference, by drawing videos.
    p_bootstrap: how often drawn differences are as far from their mean as the difference from 0.
    p_randomization: how often differences after random exchanges are as large.
  """

  first: float
  second: float
  difference: float
  interval: Interval
  p_bootstrap: float
  p_randomization: float


@dataclasses.dataclass(frozen=True)
class Comparison:
  """What two systems differ in.

  Attributes:
    signature: of the scores of both.
    names: of the two systems.
    videos: their number.
    differences: by metric.
  """

  signature: Signature
  names: tuple[str, str]
  videos: int
  differences: Mapping[str, Difference]

  def as_json(self) -> dict[str, Any]:
    """For programs."""
    first, second = self.names
    return {
      'first': first,
      'second': second,
      'videos': self.videos,
      'draws': DRAWS,
      'signature': str(self.signature),
      'metrics': {name: dataclasses.asdict(value) for name, value in self.differences.items()},
    }

  def as_text(self) -> str:
    """A table, and below it what its columns are."""
    columns = ('', 'A', 'B', 'B - A', '95 % interval', 'p (bootstrap)', 'p (randomization)')
    rows = [columns]
    for name, d in self.differences.items():
      scores = (f'{d.first:.4f}', f'{d.second:.4f}', f'{d.difference:+.4f}')
      interval = f'{d.interval[0]:+.4f} to {d.interval[1]:+.4f}'
      rows.append((name, *scores, interval, f'{d.p_bootstrap:.4f}', f'{d.p_randomization:.4f}'))
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    lines = [
      '  '.join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
    about = f'{self.videos} videos; the interval is that of B - A; {DRAWS:,} draws for each test'
    return '\n'.join([f'A: {self.names[0]}', f'B: {self.names[1]}', *lines, about])


def check_same_videos(names: Sequence[str], captions: Sequence[Mapping[str, str]]) -> None:
  """Checks that two systems can be compared; call it before their captions are scored.

  Args:
    names: of the systems.
    captions: by video id, of each system.

  Raises:
    DataError: they have captioned different videos; names some that differ.
    UserError: they have captioned a single video.
  """
  first, second = captions
  lacking = [
    (name, [video_id for video_id in other if video_id not in own])
    for name, own, other in zip(names, captions, (second, first), strict=True)
  ]
  if any(ids for _, ids in lacking):
    problems = [
      f'{name} lacks {len(ids)} of them ({first_few(ids)})' for name, ids in lacking if ids
    ]
    raise DataError(
      f'the two systems did not caption the same {len({*first, *second})} videos: '
      f'{"; ".join(problems)}',
      [f'{name} lacks {video_id}' for name, ids in lacking for video_id in ids],
    )
  if len(first) == 1:
    raise UserError('two systems are compared over several videos; there is a single one')


def compare(
  first: Statistics, second: Statistics, seed: int = 0, draws: int = DRAWS
) -> dict[str, Difference]:
  """The differences of two systems by metric.

  Args:
    first, second: of the captions of the same videos, with the same references.
    seed: of the draws.
    draws: for each test.

  Raises:
    UserError: there is a single video.
  """
  assert list(first.ids) == list(second.ids)
  if len(first.ids) < 2:
    raise UserError('two systems are compared over several videos; there is a single one')
  scores = [own.scores(own.table.sum(axis=0)) for own in (first, second)]
  difference = scores[1] - scores[0]
  rng = np.random.default_rng(seed)
  drawn = drawn_differences(first, second, rng, draws)
  exchanged = exchanged_differences(first, second, rng, draws)
  low, high = ends(drawn)
  p_bootstrap = p_values(drawn - drawn.mean(axis=0), difference)
  p_randomization = p_values(exchanged, difference)
  return {
    name: Difference(
      float(scores[0][i]),
      float(scores[1][i]),
      float(difference[i]),
      (float(low[i]), float(high[i])),
      float(p_bootstrap[i]),
      float(p_randomization[i]),
    )
    for i, name in enumerate(first.names)
  }


def drawn_differences(
  first: Statistics, second: Statistics, rng: np.random.Generator, draws: int = DRAWS
) -> np.ndarray:
  """Differences of the scores of drawn videos, second minus first: (draws, names)."""
  tables = first.table, second.table
  drawn = [
    second.scores(weights @ tables[1]) - first.scores(weights @ tables[0])
    for weights in draw_weights(len(first.ids), draws, rng)
  ]
  return np.concatenate(drawn)


def exchanged_differences(
  first: Statistics, second: Statistics, rng: np.random.Generator, draws: int = DRAWS
) -> np.ndarray:
  """Differences after the captions of a random half of the videos are exchanged: (draws, names)."""
  N = len(first.ids)
  tables = first.table, second.table
  change, sums = tables[1] - tables[0], [table.sum(axis=0) for table in tables]
  found, most = [], max(1, _CHUNK // N)
  for begin in range(0, draws, most):
    exchanged = rng.integers(0, 2, (min(most, draws - begin), N), dtype=np.uint8)
    moved = exchanged.astype(float) @ change
    found.append(second.scores(sums[1] - moved) - first.scores(sums[0] + moved))
  return np.concatenate(found)


def p_values(differences: np.ndarray, difference: np.ndarray) -> np.ndarray:
  """The share of differences without effect that are as large: (draws, M), (M,) -> (M,).

  Signs do not count. The observed difference counts as one of them (Phipson and Smyth 2010), so no
  value is 0, and two equal systems have a value of 1.
  """
  as_large = np.abs(differences) >= np.abs(difference) - _EQUAL
  return (as_large.sum(axis=0) + 1) / (len(differences) + 1)
