"""Intervals of recalls and ranks over videos."""

import numpy as np
import pytest
from scipy import stats

from vidcap_jax.evaluation import intervals, retrieval, retrieval_intervals
from vidcap_jax.evaluation.retrieval import Ranks


def test_a_recall_of_videos_has_the_quantiles_of_the_binomial_distribution():
  N, hits = 400, 120
  ranks = np.repeat([1, 7, 30], [hits, 200, N - hits - 200])
  found = retrieval_intervals.score_intervals(Ranks(ranks, ranks, np.arange(N)))
  for k, share in ((1, hits / N), (10, (hits + 200) / N)):
    expected = stats.binom.ppf([0.025, 0.975], N, share) / N
    for name in (f'video_to_text_R@{k}', f'text_to_video_R@{k}', f'R@{k}'):
      assert found[name] == pytest.approx(expected, abs=1.5 / N)
  assert found['video_to_text_R@5'] == found['video_to_text_R@1']
  assert found['video_to_text_median_rank'] == (7, 7)


@pytest.mark.parametrize('lowest', [1, 20])
def test_draws_have_the_scores_of_the_drawn_videos_and_their_captions(lowest):
  """Of videos with different numbers of captions, and one without: row 3 of the split."""
  rng = np.random.default_rng(1)
  rows = np.array([0, 1, 2, 4, 5, 6])
  owner = np.repeat(rows, [1, 2, 3, 1, 4, 2])
  ranks = Ranks(rng.integers(lowest, 40, len(rows)), rng.integers(lowest, 40, len(owner)), owner)
  drawn = []
  (weights,) = intervals.draw_weights(len(rows), 500, np.random.default_rng(3))
  for times in weights.astype(int):
    captions = np.concatenate(
      [np.tile(ranks.text_to_video[owner == row], n) for row, n in zip(rows, times, strict=True)]
    )
    drawn.append(retrieval.scores(np.repeat(ranks.video_to_text, times), captions))
  found = retrieval_intervals.score_intervals(ranks, seed=3, draws=500)
  assert list(found) == list(drawn[0])
  for name, ends in found.items():
    expected = np.quantile([scores[name] for scores in drawn], [0.025, 0.975])
    assert ends == pytest.approx(expected, abs=1e-12), name


def test_a_single_video_has_no_interval():
  one = Ranks(np.array([1]), np.array([1, 2]), np.zeros(2, int))
  assert retrieval_intervals.score_intervals(one) == {}
