"""Means, intervals and agreement of people's answers about captions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.counts import counted
from vidcap_jax.evaluation.intervals import mean_interval
from vidcap_jax.studies.human_sheets import NEITHER, Answer, Key


def score(answers: Sequence[Answer], key: Key, seed: int = 0) -> dict[str, Any]:
  """The scores of every run and criterion.

  Args:
    answers: of ``human_sheets.read_sheets``.
    key: of the drawing.
    seed: of the bootstrap.

  Returns:
    ``criteria``: criterion -> {agreement, answers, runs}, where runs has for each label its mean
    and the ends of its 95 % interval. Of the task 'compare' the mean is the share of answers that
    prefer the run, and the further label 'neither' is the share of those that prefer none; of
    'rate' it is the mean of the points.

  Raises:
    ModuleNotFoundError: nltk is not installed; says how to install it.
  """
  questions = key.questions
  rate = questions.task == 'rate'
  labels = [*key.runs] if rate else [*key.runs, NEITHER]
  criteria = {}
  for criterion in questions.criteria:
    chosen = [answer for answer in answers if answer.criterion == criterion]
    criteria[criterion] = {
      'answers': len(chosen),
      'agreement': agreement(chosen, rate),
      'runs': {label: _mean(chosen, label, rate, np.random.default_rng(seed)) for label in labels},
    }
  return {
    'task': questions.task,
    'points': questions.points if rate else None,
    'videos': len({answer.video_id for answer in answers}),
    'raters': len({answer.rater for answer in answers}),
    'criteria': criteria,
  }


def _mean(
  answers: Sequence[Answer], label: str, rate: bool, rng: np.random.Generator
) -> dict[str, Any]:
  """The mean of a label's answers and its interval over videos."""
  by_video: dict[str, list[float]] = {}
  for answer in answers:
    if not rate or answer.run == label:
      value = answer.points if rate else answer.run == label
      by_video.setdefault(answer.video_id, []).append(float(value or 0))
  if not by_video:
    return {'mean': None, 'interval': None}
  totals = np.array([sum(values) for values in by_video.values()])
  counts = np.array([len(values) for values in by_video.values()])
  low, high = mean_interval(totals, counts, rng)
  return {'mean': float(totals.sum() / counts.sum()), 'interval': [low, high]}


def agreement(answers: Sequence[Answer], rate: bool) -> float | None:
  """Krippendorff's alpha between raters; None if no two of them answered for the same video.

  Args:
    answers: of one criterion.
    rate: whether they are points, whose differences count squared; else answers are the same or
      not.

  Raises:
    ModuleNotFoundError: nltk is not installed; says how to install it.
  """
  try:
    from nltk.metrics import agreement as nltk_agreement
    from nltk.metrics import binary_distance, interval_distance
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'nltk is needed for the agreement between raters: install the extra "human", '
      "pip install 'vidcap_jax[human]'"
    ) from error
  rows = [
    (a.rater, (a.video_id, a.run), a.points) if rate else (a.rater, a.video_id, a.run)
    for a in answers
  ]
  raters_by_unit: dict[Any, set[str]] = {}
  for rater, unit, _ in rows:
    raters_by_unit.setdefault(unit, set()).add(rater)
  if all(len(raters) < 2 for raters in raters_by_unit.values()):
    return None
  distance = interval_distance if rate else binary_distance
  return float(nltk_agreement.AnnotationTask(rows, distance).alpha())


def table(result: Mapping[str, Any]) -> str:
  """The scores as text."""
  rate = result['task'] == 'rate'
  scale, unit = (1.0, f'points of {result["points"]}') if rate else (100.0, 'per cent of answers')
  counts = f'{counted(result["videos"], "video")}, {counted(result["raters"], "rater")}'
  lines = [f'{counts}; {unit}, 95 % interval']
  labels = next(iter(result['criteria'].values()))['runs']
  width = max(map(len, labels))
  for criterion, entry in result['criteria'].items():
    alpha = entry['agreement']
    shown = 'unknown: no two raters of a video' if alpha is None else f'{alpha:.3f}'
    lines.append(f"{criterion}: {entry['answers']} answers, Krippendorff's alpha {shown}")
    for label, run in entry['runs'].items():
      if run['mean'] is None:
        lines.append(f'  {label:<{width}}  no answers')
        continue
      low, high = run['interval']
      mean = f'{run["mean"] * scale:6.2f}'
      lines.append(f'  {label:<{width}}  {mean}  {low * scale:.2f} to {high * scale:.2f}')
  return '\n'.join(lines)
