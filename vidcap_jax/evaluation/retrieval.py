"""Retrieval within a split: captions by videos, and videos by captions.

A rank is 1 plus the number of wrong answers that are at least as near as the right one. Ties count
as mistakes, so a model that maps everything to one point ranks last, not first.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vidcap_jax.counts import counted

RECALLS = (1, 5, 10)
DIRECTIONS = ('video_to_text', 'text_to_video')
# The scores in which more is better, by any of which the best checkpoint may be chosen.
SCORES = (
  *(f'R@{k}' for k in RECALLS),
  'rsum',
  *(f'{direction}_R@{k}' for direction in DIRECTIONS for k in RECALLS),
)
EQUAL = 1e-6  # cosines that differ by at most this are equal, within the precision of float32
T = TypeVar('T', bound=Any)  # a score, or an array of them
_ROWS = 256  # videos compared at a time, to bound the memory


class Ranks(NamedTuple):
  """The ranks of the right answers in a split, from 1.

  Attributes:
    video_to_text: for each video with captions, in order, the rank of its nearest caption among the
      captions of all other videos.
    text_to_video: (M,) for each caption, the rank of its video among all videos.
    owner: (M,) int, the video that each caption describes.
  """

  video_to_text: np.ndarray
  text_to_video: np.ndarray
  owner: np.ndarray


def ranks(videos: np.ndarray, captions: np.ndarray, owner: np.ndarray) -> Ranks:
  """Ranks of the right answers, from 1; ties rank wrong answers first.

  Args:
    videos: (N, H), unit vectors.
    captions: (M, H), unit vectors, of all videos.
    owner: (M,) int, the video that each caption describes.

  Returns:
    The ranks; videos without captions count as wrong answers.
  """
  own = np.einsum('mh,mh->m', videos[owner], captions)  # (M,)
  nearest = np.full(len(videos), -np.inf, own.dtype)
  with np.errstate(invalid='ignore'):  # NaN stays NaN
    np.maximum.at(nearest, owner, own)
  video_to_text = np.ones(len(videos), np.int64)
  text_to_video = np.ones(len(captions), np.int64)
  for first in range(0, len(videos), _ROWS):
    rows = np.arange(first, min(first + _ROWS, len(videos)))
    near = videos[rows] @ captions.T  # (rows, M)
    wrong = rows[:, None] != owner
    # "Not less" rather than "at least", so that NaN counts as a mistake.
    video_to_text[rows] += (wrong & ~(near < nearest[rows, None] - EQUAL)).sum(axis=1)
    text_to_video += (wrong & ~(near < own - EQUAL)).sum(axis=0)
  has_captions = np.bincount(owner, minlength=len(videos)) > 0
  return Ranks(video_to_text[has_captions], text_to_video, owner)


def scores(video_to_text: np.ndarray, text_to_video: np.ndarray) -> dict[str, float]:
  """R@1, R@5 and R@10 as fractions, and the median rank, of both directions.

  ``R@K`` without a direction is the mean of both, ``rsum`` the sum of all six.
  """
  values: dict[str, float] = {}
  for direction, rank in zip(DIRECTIONS, (video_to_text, text_to_video)):
    values |= {f'{direction}_R@{k}': float((rank <= k).mean()) for k in RECALLS}
    values[f'{direction}_median_rank'] = float(np.median(rank))
  return with_means(values)


def with_means(values: Mapping[str, T]) -> dict[str, T]:
  """Adds R@K of both directions, the mean, and rsum to the scores of each direction.

  Args:
    values: by name; numbers, or arrays of the scores of several draws.
  """
  both = {k: [values[f'{direction}_R@{k}'] for direction in DIRECTIONS] for k in RECALLS}
  means = {f'R@{k}': sum(pair) / 2 for k, pair in both.items()}
  return {**values, **means, 'rsum': sum(map(sum, both.values()))}


def perfect_score(name: str, captions: Sequence[int]) -> str:
  """Why a score of ``SCORES`` is at its best for any embedding; '' if it is not.

  Args:
    name: of the score.
    captions: number of captions of each video.
  """
  total = sum(captions)
  # The lowest ranks that are possible.
  lowest = {
    'video_to_text': 1 + max(total - count for count in captions if count),
    'text_to_video': len(captions),
  }
  direction, _, recall = name.rpartition('_')  # R@K and rsum are of both directions
  k = 1 if recall == 'rsum' else int(recall.removeprefix('R@'))
  if any(lowest[d] > k for d in ([direction] if direction else DIRECTIONS)):
    return ''
  always = 2 * len(RECALLS) if recall == 'rsum' else 1
  return f'is always {always} with {counted(len(captions), "video")}'


def summary(report: Mapping) -> str:
  """A report's scores in a few lines."""
  lines = []
  for direction in DIRECTIONS:
    recalls = '  '.join(f'R@{k} {_shown(report, f"{direction}_R@{k}")}' for k in RECALLS)
    median = _shown(report, f'{direction}_median_rank', 'g')
    lines.append(f'{direction.replace("_", " ")}: {recalls}  median rank {median}')
  lines.append(f'rsum {_shown(report, "rsum")}')
  if report.get('intervals'):
    lines.append('in brackets: 95 % intervals over videos')
  return '\n'.join(lines)


def _shown(report: Mapping, name: str, form: str = '.4f') -> str:
  """A score, and its interval where there is one."""
  text = f'{report[name]:{form}}'
  if name in report.get('intervals', {}):
    low, high = report['intervals'][name]
    text += f' ({low:{form}} to {high:{form}})'
  return text
