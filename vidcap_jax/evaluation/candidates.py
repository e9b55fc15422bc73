"""Several captions of a video: what choosing among them could gain, and what chance would."""

from collections.abc import Mapping, Sequence

from vidcap_jax.evaluation import metrics


def score(captions: Sequence[Mapping], references: metrics.References) -> dict[str, float]:
  """CIDEr if always the best of a video's candidates were chosen, and if one were at random.

  CIDEr of a split is the mean of its videos', so that both are exact: nothing is drawn.

  Args:
    captions: of every video; ``captions`` of one lists its candidates, best first or in any order.
    references: of the same videos.

  Returns:
    oracle_CIDEr, random_CIDEr and candidates, the most that a video has; {} where no video has
    several.
  """
  several = {c['video_id']: [one['caption'] for one in c.get('captions', [c])] for c in captions}
  most = max(map(len, several.values()), default=0)
  if most < 2:
    return {}
  each: dict[str, list[float]] = {video_id: [] for video_id in several}
  for k in range(most):
    # A video with fewer shows its last one again, which is left out below.
    shown = {video_id: texts[min(k, len(texts) - 1)] for video_id, texts in several.items()}
    _, by_video = metrics.score(shown, references, metrics=('CIDEr',))
    for video_id, texts in several.items():
      if k < len(texts):
        each[video_id].append(by_video[video_id]['CIDEr'])
  mean = lambda values: sum(values) / len(each)  # noqa: E731
  return {
    'oracle_CIDEr': mean(map(max, each.values())),
    'random_CIDEr': mean(sum(values) / len(values) for values in each.values()),
    'candidates': most,
  }
