"""95 % intervals of scores, by drawing videos with replacement (the bootstrap)."""

from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.evaluation.metrics import References, Scores, tokenize

DRAWS = 10_000
CONFIDENCE = 0.95
_CHUNK = 500  # draws at a time: (draws, videos) of them are in memory

Interval = tuple[float, float]


def mean_interval(totals: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> Interval:
  """The interval of a mean of values that belong to videos.

  Videos are drawn, not values: those of one video are alike.

  Args:
    totals: (N,), the sum of a video's values.
    counts: (N,), their number.
    rng: draws.
  """
  N = len(totals)
  weights = rng.multinomial(N, np.full(N, 1 / N), size=DRAWS)  # how often each video is drawn
  return _ends((weights @ totals) / (weights @ counts))


def score_intervals(
  hypotheses: Mapping[str, str],
  references: References,
  corpus: Scores,
  per_video: Mapping[str, Scores],
  seed: int = 0,
) -> dict[str, Interval]:
  """The interval of each score of a split.

  BLEU is computed anew from the n-gram counts of the videos drawn. CIDEr and ROUGE-L are means over
  videos, with the word weights of the whole split. METEOR's is that of the mean over videos, moved
  by the difference between the split's score and that mean.

  Args:
    hypotheses: one caption per video id.
    references: of the same videos.
    corpus, per_video: of ``metrics.score`` for these.
    seed: of the draws.
  """
  ids = list(references.captions)
  N, rng = len(ids), np.random.default_rng(seed)
  tokens = tokenize([hypotheses[v] for v in ids], references.by_character)
  counts = bleu_counts(tokens, [references.captions[v] for v in ids])
  means = {
    name: np.array([per_video[v][name] for v in ids]) for name in corpus if name[:4] != 'BLEU'
  }
  drawn: dict[str, list[np.ndarray]] = {name: [] for name in corpus}
  for _ in range(DRAWS // _CHUNK):
    weights = rng.multinomial(N, np.full(N, 1 / N), size=_CHUNK).astype(float)
    for name, values in means.items():
      drawn[name].append(weights @ values / N + corpus[name] - values.mean())
    bleu = bleu_of_counts(weights @ counts)
    for n in range(4):
      if f'BLEU_{n + 1}' in corpus:
        drawn[f'BLEU_{n + 1}'].append(bleu[:, n])
  return {name: _ends(np.concatenate(values)) for name, values in drawn.items()}


def bleu_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
  """What a split's BLEU needs of each video, (N, 10); sums over videos are those of the split.

  Args:
    hypotheses: tokens joined by spaces, one caption a video.
    references: the same of each video.

  Returns:
    Words of the caption; words of the reference of the nearest length; number of n-grams of the
    caption, n = 1 to 4; number of these that a reference has.
  """
  from pycocoevalcap.bleu.bleu_scorer import cook_refs, cook_test

  cooked = [
    cook_test(hypothesis, cook_refs(captions), eff='closest')
    for hypothesis, captions in zip(hypotheses, references, strict=True)
  ]
  rows = [[c['testlen'], c['reflen'], *c['guess'], *c['correct']] for c in cooked]
  return np.array(rows, float)


def bleu_of_counts(counts: np.ndarray) -> np.ndarray:
  """BLEU-1 to BLEU-4 of sums of ``bleu_counts``: (…, 10) -> (…, 4)."""
  words, reference_words = counts[..., :1], counts[..., 1:2]
  precisions = (counts[..., 6:] + 1e-15) / (counts[..., 2:6] + 1e-9)  # as pycocoevalcap has them
  means = np.exp(np.cumsum(np.log(precisions), axis=-1) / np.arange(1, 5))
  ratio = (words + 1e-15) / (reference_words + 1e-9)
  return means * np.exp(np.minimum(0.0, 1 - 1 / ratio))


def _ends(values: np.ndarray) -> Interval:
  """The interval of drawn values."""
  tail = (1 - CONFIDENCE) / 2
  low, high = np.quantile(values, [tail, 1 - tail])
  return float(low), float(high)
