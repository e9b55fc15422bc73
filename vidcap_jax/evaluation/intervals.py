"""95 % intervals of scores, by drawing videos with replacement (the bootstrap)."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import special

from vidcap_jax.evaluation import meteor, ngram_scores
from vidcap_jax.evaluation.metrics import ScoreDetails

DRAWS = 10_000
CONFIDENCE = 0.95
_CHUNK = 200_000  # drawn videos at a time: their counts stay in the processor's cache

Interval = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Statistics:
  """What the scores of a split, and of any draw of its videos, are computed from.

  BLEU and METEOR of a draw are those of its summed counts. ROUGE-L and CIDEr are means over videos;
  CIDEr has the document frequencies of the whole split, whatever is drawn.

  Attributes:
    ids: of the videos.
    names: of the scores.
    means: (N, M), the videos' scores that are averaged.
    bleu: (N, 10), see ``ngram_scores.bleu_counts``.
    meteor: (N, 23), see ``meteor.score_of_statistics``.
  """

  ids: Sequence[str]
  names: Sequence[str]
  means: np.ndarray
  bleu: np.ndarray
  meteor: np.ndarray

  @property
  def table(self) -> np.ndarray:
    """All statistics side by side, (N, M + 33)."""
    return np.concatenate([self.means, self.bleu, self.meteor], axis=1)

  def scores(self, sums: np.ndarray) -> np.ndarray:
    """The scores of N drawn videos from the sums of their rows of ``table``: (…, K) -> (…, names).

    Args:
      sums: of as many videos as there are ids, of which some may be drawn several times.
    """
    M = self.means.shape[1]
    bleu = ngram_scores.bleu_of_counts(sums[..., M : M + 10])
    scored = {f'BLEU_{n + 1}': bleu[..., n] for n in range(4)}
    scored['METEOR'] = meteor.score_of_statistics(sums[..., M + 10 :])
    averaged = (name for name in self.names if name not in scored)
    scored |= {name: sums[..., i] / len(self.ids) for i, name in enumerate(averaged)}
    return np.stack([scored[name] for name in self.names], axis=-1)


def statistics_of(details: ScoreDetails) -> Statistics:
  """The statistics of scored captions."""
  names, N = list(details.corpus), len(details.ids)
  averaged = [name for name in names if not name.startswith('BLEU_') and name != 'METEOR']
  bleu, meteor_statistics = np.zeros((N, 10)), np.zeros((N, 23))
  if 'BLEU_1' in names:
    captions = details.references.captions
    references = [captions[video_id] for video_id in details.ids]
    bleu = ngram_scores.bleu_counts(ngram_scores.count_ngrams(details.tokens, references))
  if details.meteor_statistics is not None:
    meteor_statistics = details.meteor_statistics
  means = np.stack([details.values[name] for name in averaged], axis=1) if averaged else None
  return Statistics(
    details.ids, names, np.zeros((N, 0)) if means is None else means, bleu, meteor_statistics
  )


def score_intervals(
  statistics: Statistics, seed: int = 0, draws: int = DRAWS
) -> dict[str, Interval]:
  """The interval of each score of a split; {} for a single video, which has no spread.

  Args:
    statistics: of the split's captions.
    seed: of the draws.
    draws: their number.
  """
  if len(statistics.ids) < 2:
    return {}
  table, rng = statistics.table, np.random.default_rng(seed)
  drawn = [statistics.scores(weights @ table) for weights in draw_weights(len(table), draws, rng)]
  low, high = ends(np.concatenate(drawn))
  return {name: (float(low[i]), float(high[i])) for i, name in enumerate(statistics.names)}


def draw_weights(N: int, draws: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
  """How often each video is drawn: arrays (chunk, N), together of ``draws`` rows.

  Args:
    N: number of videos, of which each row has N drawn ones.
    draws: number of rows.
    rng: draws.
  """
  most = max(1, _CHUNK // N)
  for begin in range(0, draws, most):
    chunk = min(most, draws - begin)
    videos = rng.integers(0, N, (chunk, N), dtype=np.uint32) + np.arange(chunk)[:, None] * N
    yield np.bincount(videos.ravel(), minlength=chunk * N).reshape(chunk, N).astype(float)


def mean_interval(totals: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> Interval:
  """The interval of a mean of values that belong to videos.

  Videos are drawn, not values: those of one video are alike.

  Args:
    totals: (N,), the sum of a video's values.
    counts: (N,), their number.
    rng: draws.
  """
  both = np.stack([totals, counts], axis=1)
  sums = np.concatenate([weights @ both for weights in draw_weights(len(both), DRAWS, rng)])
  low, high = ends(sums[:, 0] / sums[:, 1])
  return float(low), float(high)


def seeds_interval(values: Sequence[float]) -> Interval | None:
  """The interval of the mean over seeds by Student's t distribution; None for a single seed."""
  n = len(values)
  if n < 2:
    return None
  quantile = special.stdtrit(n - 1, (1 + CONFIDENCE) / 2)
  half = float(quantile * np.std(values, ddof=1) / np.sqrt(n))
  mean = float(np.mean(values))
  return mean - half, mean + half


def ends(values: np.ndarray) -> np.ndarray:
  """The ends of the interval of drawn values: (draws, …) -> (2, …)."""
  tail = (1 - CONFIDENCE) / 2
  return np.quantile(values, [tail, 1 - tail], axis=0)
