"""Scores of choosing among several captions of a video: by the best choice, and at random."""

from collections.abc import Mapping, Sequence

from vidcap_jax.evaluation import metrics


def score(captions: Sequence[Mapping], references: metrics.References) -> dict[str, float]:
  """CIDEr of the best candidate of each video, and the expected CIDEr of a random one.

  CIDEr of a split is the mean over its videos, so both are exact: nothing is sampled.

  Args:
    captions: one object per video; its ``captions`` lists the candidates, in any order.
    references: of the same videos.

  Returns:
    oracle_CIDEr, random_CIDEr, and candidates, the largest number of candidates of a video; {} if
    no video has several.
  """
  candidates = {c['video_id']: [k['caption'] for k in c.get('captions', [c])] for c in captions}
  most = max(map(len, candidates.values()), default=0)
  if most < 2:
    return {}
  scores: dict[str, list[float]] = {video_id: [] for video_id in candidates}
  for k in range(most):
    # All videos have to be scored: one with fewer candidates repeats its last, not counted below.
    kth = {video_id: texts[min(k, len(texts) - 1)] for video_id, texts in candidates.items()}
    _, by_video = metrics.score(kth, references, metrics=('CIDEr',))
    for video_id, texts in candidates.items():
      if k < len(texts):
        scores[video_id].append(by_video[video_id]['CIDEr'])
  mean = lambda values: sum(values) / len(scores)  # noqa: E731
  return {
    'oracle_CIDEr': mean(map(max, scores.values())),
    'random_CIDEr': mean(sum(values) / len(values) for values in scores.values()),
    'candidates': most,
  }
