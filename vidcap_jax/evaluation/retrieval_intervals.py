"""95 % intervals of the scores of retrieval, by drawing videos with replacement.

A drawn video brings its captions. What is searched is the whole split, whichever videos are drawn:
recalls and ranks depend on the number of wrong answers, so the ranks stay as they are.
"""

import numpy as np
from scipy import sparse

from vidcap_jax.evaluation import retrieval
from vidcap_jax.evaluation.intervals import DRAWS, Interval, draw_weights, ends


def score_intervals(
  ranks: retrieval.Ranks, seed: int = 0, draws: int = DRAWS
) -> dict[str, Interval]:
  """The interval of each of ``retrieval.scores``; {} for a single video with captions.

  Args:
    ranks: of the split.
    seed: of the draws.
    draws: their number.
  """
  N = len(ranks.video_to_text)
  if N < 2:
    return {}
  counts = {
    'video_to_text': _Counts(ranks.video_to_text, np.arange(N)),
    'text_to_video': _Counts(ranks.text_to_video, np.unique(ranks.owner, return_inverse=True)[1]),
  }
  drawn: dict[str, list[np.ndarray]] = {}
  for weights in draw_weights(N, draws, np.random.default_rng(seed)):
    scores: dict[str, np.ndarray] = {}
    for direction, own in counts.items():
      scores |= {f'{direction}_{name}': values for name, values in own.scores(weights).items()}
    for name, values in retrieval.with_means(scores).items():
      drawn.setdefault(name, []).append(values)
  found = {name: ends(np.concatenate(values)) for name, values in drawn.items()}
  return {name: (float(low), float(high)) for name, (low, high) in found.items()}


class _Counts:
  """How many queries of each video have each rank.

  Args:
    ranks: (M,), of the queries.
    video: (M,) int, of which each query is.
  """

  def __init__(self, ranks: np.ndarray, video: np.ndarray):
    self._ranks, column = np.unique(ranks, return_inverse=True)
    self._table = sparse.csr_array((np.ones(len(ranks)), (video, column)))  # (N, different ranks)

  def scores(self, weights: np.ndarray) -> dict[str, np.ndarray]:
    """R@K and the median rank of draws: (draws, N) -> (draws,) each."""
    up_to = np.cumsum(weights @ self._table, axis=1)  # queries with at most each rank
    total = up_to[:, -1]
    found = {}
    for k in retrieval.RECALLS:
      place = np.searchsorted(self._ranks, k, side='right')
      found[f'R@{k}'] = up_to[:, place - 1] / total if place else np.zeros(len(total))
    # The mean of the two in the middle, which are the same query if their number is odd.
    middle = [
      self._ranks[(up_to <= before[:, None]).sum(axis=1)]
      for before in ((total - 1) // 2, total // 2)
    ]
    return {**found, 'median_rank': np.mean(middle, axis=0)}
