"""Retrieval among a split: which captions find their video, and which videos one of their captions.

A rank is 1 plus the number of wrong answers that are at least as near as the right one. What is
equally near counts as a mistake, so that a model that tells nothing apart ranks last, not first.
"""

from collections.abc import Mapping

import numpy as np

RECALLS = (1, 5, 10)
DIRECTIONS = ('video_to_text', 'text_to_video')
# Those in which more is better; the checkpoint of the most is the best.
SCORES = (
  *(f'R@{k}' for k in RECALLS),
  'rsum',
  *(f'{direction}_R@{k}' for direction in DIRECTIONS for k in RECALLS),
)
EQUAL = 1e-6  # cosines that differ by no more are equal: float32 does not hold more of them
_ROWS = 256  # videos compared at a time, which bounds the memory


def ranks(
  videos: np.ndarray, captions: np.ndarray, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Ranks of right answers, from 1; of equally near answers the wrong ones come first.

  Args:
    videos: (N, H) of length 1.
    captions: (M, H) of length 1, of all videos together.
    owner: (M,) int, which video each describes.

  Returns:
    video_to_text: for each video that has captions, in order, the rank of its nearest one among
      the captions of all others.
    text_to_video: (M,) for each caption the rank of its video among all videos, those without
      captions included.
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
    # "Not less" is "at least", but for NaN, which must not win.
    video_to_text[rows] += (wrong & ~(near < nearest[rows, None] - EQUAL)).sum(axis=1)
    text_to_video += (wrong & ~(near < own - EQUAL)).sum(axis=0)
  has_captions = np.bincount(owner, minlength=len(videos)) > 0
  return video_to_text[has_captions], text_to_video


def scores(video_to_text: np.ndarray, text_to_video: np.ndarray) -> dict[str, float]:
  """R@1, R@5 and R@10, fractions, and median rank, of both directions.

  ``R@K`` without a direction is the mean of both, ``rsum`` the sum of all six.
  """
  found: dict[str, float] = {}
  for direction, rank in zip(DIRECTIONS, (video_to_text, text_to_video)):
    found |= {f'{direction}_R@{k}': float((rank <= k).mean()) for k in RECALLS}
    found[f'{direction}_median_rank'] = float(np.median(rank))
  both = {k: [found[f'{direction}_R@{k}'] for direction in DIRECTIONS] for k in RECALLS}
  found |= {f'R@{k}': sum(pair) / 2 for k, pair in both.items()}
  return found | {'rsum': sum(map(sum, both.values()))}


def summary(report: Mapping) -> str:
  """A report's scores in a few lines."""
  lines = []
  for direction in DIRECTIONS:
    recalls = '  '.join(f'R@{k} {report[f"{direction}_R@{k}"]:.4f}' for k in RECALLS)
    median = report[f'{direction}_median_rank']
    lines.append(f'{direction.replace("_", " ")}: {recalls}  median rank {median:g}')
  return '\n'.join([*lines, f'rsum {report["rsum"]:.4f}'])
