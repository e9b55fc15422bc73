"""Scores of an evaluation: of the split with intervals, and of each video."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap_jax.evaluation import metrics
from vidcap_jax.evaluation.comparison import Difference, compare
from vidcap_jax.evaluation.intervals import Interval, Statistics, score_intervals, statistics_of
from vidcap_jax.reporting.evaluations import DataSplit, Evaluation

NAMES = ('CIDEr', 'METEOR', 'ROUGE_L', 'BLEU_4')  # shown of each video
_EQUAL = 1e-4  # scores that differ by less are the same but for rounding


@dataclasses.dataclass(frozen=True)
class Scored:
  """The scores of an evaluation.

  Attributes:
    corpus: metric -> score of the split.
    intervals: metric -> 95 % interval.
    per_video: video id -> metric -> score; {} without references.
    statistics: of the captions; None without references.
  """

  corpus: Mapping[str, float] = dataclasses.field(default_factory=dict)
  intervals: Mapping[str, Interval] = dataclasses.field(default_factory=dict)
  per_video: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
  statistics: Statistics | None = None


def references_of(
  evaluation: Evaluation, data: DataSplit | None, by_character: bool
) -> metrics.References | None:
  """The tokenised references of the captioned videos; None if there are none."""
  if data is None or not evaluation.metrics.get('references'):
    return None
  captions = {id_: list(data.videos[id_].captions) for id_ in evaluation.hypotheses}
  return metrics.prepare_references(captions, by_character=by_character)


def score(
  evaluations: Sequence[Evaluation],
  references: metrics.References | None,
  log: Callable[[str], None],
) -> list[Scored]:
  """Scores the captions of evaluations of the same videos.

  Without references the scores are those of metrics.json.
  """
  if references is None:
    return [
      Scored(_saved(each.metrics), dict(each.metrics.get('intervals', {}))) for each in evaluations
    ]
  found = []
  with metrics.start_meteor() as process:
    for evaluation in evaluations:
      log(f'scoring {len(references.captions)} captions of {evaluation.label} for each video')
      hypotheses = {id_: evaluation.hypotheses[id_] for id_ in references.captions}
      details = metrics.score_details(
        hypotheses, references, meteor_process=process, label=f'scoring {evaluation.split}'
      )
      statistics = statistics_of(details)
      intervals = score_intervals(statistics)
      found.append(Scored(details.corpus, intervals, details.per_video, statistics))
  return found


def differences(scored: Sequence[Scored]) -> Mapping[str, Difference]:
  """Paired tests of two scored evaluations, the first minus the second; {} if there are none."""
  if len(scored) < 2:
    return {}
  own, other = (each.statistics for each in scored)
  if own is None or other is None or len(own.ids) < 2:
    return {}
  return compare(other, own)


def _saved(contents: Mapping[str, Any]) -> dict[str, float]:
  """The scores in a metrics.json."""
  names = [f'BLEU_{n}' for n in range(1, 5)] + list(NAMES[:3])
  return {name: contents[name] for name in names if isinstance(contents.get(name), float)}


def changed_since(evaluation: Evaluation, scored: Scored) -> list[str]:
  """A line for each score that metrics.json has with another value, as of other packages."""
  saved = _saved(evaluation.metrics)
  return [
    f'{name} is {value:.4f} here and {saved[name]:.4f} in metrics.json'
    for name, value in scored.corpus.items()
    if name in saved and abs(value - saved[name]) > _EQUAL
  ]


def word_probability(entry: Mapping[str, Any]) -> float | None:
  """The geometric mean of the probabilities of a caption's words, its end included."""
  log_prob = entry.get('log_prob')
  if log_prob is None or not math.isfinite(log_prob):
    return None
  return math.exp(log_prob / (len(entry['caption'].split()) + 1))
