"""What two evaluated runs differ in: settings, scores, signatures and captions."""

from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax.config_diff import differences, with_added_keys
from vidcap_jax.errors import ConfigError, DataError, first_few
from vidcap_jax.evaluation import signature
from vidcap_jax.files import read_json
from vidcap_jax.reporting.evaluations import Evaluation
from vidcap_jax.reporting.scores import Scored
from vidcap_jax.reporting.scores import differences as score_differences


def check(own: Evaluation, other: Evaluation) -> None:
  """Raises DataError unless both evaluations are of the same videos of the same data."""
  where = f'--compare: {other.folder}'
  if own.folder.absolute() == other.folder.absolute():
    raise DataError(f'{where}: the same results as --run; give those of another run')
  if own.metrics['data']['hash'] != other.metrics['data']['hash']:
    raise DataError(
      f'{where}: of the data set {other.metrics["data"]["name"]} '
      f'({other.metrics["data"]["hash"]}), those of --run are of {own.metrics["data"]["name"]} '
      f'({own.metrics["data"]["hash"]}); evaluate both on the same data'
    )
  if different := sorted({*own.hypotheses} ^ {*other.hypotheses}):
    raise DataError(
      f'{where}: {len(different)} videos have a caption of one run only: {first_few(different)}'
    )


def as_json(
  own: Evaluation, other: Evaluation, scores: Sequence[Scored], changes: Mapping[str, float]
) -> dict[str, Any]:
  """The comparison for the page.

  Args:
    own, other: the evaluations.
    scores: of both.
    changes: video id -> CIDEr of ``own`` minus that of ``other``; {} without references.
  """
  numbers = {entry['video_id']: number for number, entry in enumerate(own.captions)}
  texts = other.hypotheses
  changed = [e['video_id'] for e in own.captions if e['caption'] != texts[e['video_id']]]
  gained = sorted((id_ for id_ in changed if id_ in changes), key=lambda id_: -changes[id_])
  return {
    'label': other.label,
    'scores': {
      name: [value, *other_interval(scores[1], name)] for name, value in scores[1].corpus.items()
    },
    'tests': {
      name: [each.difference, *each.interval, each.p_randomization]
      for name, each in score_differences(scores).items()
    },
    'config': config_differences(own, other),
    'signatures': signature_differences(own, other),
    'changed': len(changed),
    'better': sum(changes.get(id_, 0) > 0 for id_ in changed),
    'worse': sum(changes.get(id_, 0) < 0 for id_ in changed),
    'gained': [numbers[id_] for id_ in gained if changes[id_] > 0],
    'lost': [numbers[id_] for id_ in reversed(gained) if changes[id_] < 0],
  }


def other_interval(scored: Scored, name: str) -> tuple[float | None, float | None]:
  return scored.intervals.get(name, (None, None))


def config_differences(own: Evaluation, other: Evaluation) -> list[list[str]] | None:
  """(setting, value of own, value of other); None if a run's config.json is not there."""
  configs = []
  for evaluation in (own, other):
    if evaluation.workdir is None:
      return None
    configs.append(with_added_keys(read_json(evaluation.workdir / 'config.json')))
  different = differences(*configs)
  return [[key, *map(_text, values)] for key, values in different.items()]


def _text(value: Any) -> str:
  return value if isinstance(value, str) else repr(value)


def signature_differences(own: Evaluation, other: Evaluation) -> list[list[str]]:
  """(key, value of own, value of other) of signatures; scores compare only if they agree."""
  texts = [evaluation.metrics.get('signature') for evaluation in (own, other)]
  if None in texts:
    return []
  try:
    found = signature.differences(*map(signature.parse, filter(None, texts)))
  except ConfigError:  # of a later version, with keys unknown here
    return []
  return [[each.key, each.first, each.second] for each in found]
