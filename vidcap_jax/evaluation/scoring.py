"""Scores captions of any origin against references: files of them, or mappings."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence

from vidcap_jax.annotations import caption_files
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError, first_few
from vidcap_jax.evaluation import meteor, signature
from vidcap_jax.evaluation.java import require_java
from vidcap_jax.evaluation.metrics import (
  METRICS,
  Scores,
  check_hypotheses,
  check_metrics,
  check_references,
  check_scorers,
  different_note,
  prepare_references,
  score,
  split_words,
)
from vidcap_jax.evaluation.signature import Signature
from vidcap_jax.evaluation.zero_scores import zero_notes
from vidcap_jax.files import check_input

PathLike = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Options:
  """What is scored, and how; ``python -m vidcap_jax.evaluation.metrics --help`` explains each."""

  metrics: Sequence[str] = METRICS
  split: str | None = None
  splits: str | None = None
  format: str | None = None
  language: str | None = None
  by_character: bool = False
  meteor_time_limit: float = meteor.TIME_LIMIT
  scorers: str = 'numpy'
  signature: str | None = None


@dataclasses.dataclass(frozen=True)
class Scored:
  """The scores of all captions together and of each video, with their signature.

  ``different``, the number of references that differ, is as of ``metrics.References``.
  """

  signature: Signature
  corpus: Scores
  per_video: Mapping[str, Scores]
  captions: Mapping[str, str]
  different: int


def score_captions(
  hypotheses: PathLike | Mapping[str, str],
  references: PathLike | Mapping[str, str | Sequence[str]],
  options: Options,
  log: Callable[[str], None],
) -> Scored:
  """Scores one caption a video.

  Args:
    hypotheses: the captions by video id, or a file of them, see ``caption_files``.
    references: each video's captions, or its only one, or a file or data set with them.
    options: how to score; ``split``, ``splits``, ``format`` and ``language`` are for references
      in a file.
    log: called with what is odd about the references.

  Raises:
    DataError: files that can't be read, videos that don't fit together, or scores that will not
      have the signature of the options.
    ConfigError: an unknown metric, unknown scorers, or a signature of another form.
    MetricError: there is no Java, or a scoring program failed.
  """
  for flag, path in (('--hypotheses', hypotheses), ('--references', references)):
    if not isinstance(path, Mapping):
      check_input(flag, path, 'a file')
  check_metrics(options.metrics)
  check_scorers(options.scorers)
  wanted = None if options.signature is None else signature.read(options.signature)
  require_java()
  if not isinstance(hypotheses, Mapping):
    hypotheses = caption_files.read_hypotheses(os.fspath(hypotheses))
  if isinstance(references, Mapping):
    by_video: Mapping[str, Sequence[str]] = {
      v: [c] if isinstance(c, str) else c for v, c in references.items()
    }
  else:
    by_video = _read_references(os.fspath(references), hypotheses, options)
  check_references(by_video)
  check_hypotheses(hypotheses, by_video)
  own_signature = _signature_of(references, by_video, options)
  if wanted is not None:
    signature.check(wanted, own_signature, log)
  split = functools.partial(split_words, by_character=options.by_character)
  for note in zero_notes(list(by_video.values()), options.metrics, split):
    log(note)
  with contextlib.ExitStack() as stack:
    process = None
    if 'METEOR' in options.metrics:  # it starts while references are tokenised
      process = stack.enter_context(meteor.Meteor(options.meteor_time_limit))
    prepared = prepare_references(by_video, by_character=options.by_character)
    if prepared.different:
      log(different_note(prepared))
    corpus, per_video = score(
      hypotheses,
      prepared,
      options.metrics,
      meteor_process=process,
      scorers=options.scorers,
    )
  return Scored(own_signature, corpus, per_video, hypotheses, prepared.different)


def _signature_of(
  references: PathLike | Mapping, by_video: Mapping[str, Sequence[str]], options: Options
) -> Signature:
  data_set = not isinstance(references, Mapping) and os.path.isdir(references)
  return signature.of_captions(
    by_video,
    by_character=options.by_character,
    scorers=options.scorers,
    split=options.split or '',
    data_hash=read_manifest(references).hash if data_set and not options.format else '',
  )


def _read_references(
  path: str, hypotheses: Mapping[str, str], options: Options
) -> dict[str, list[str]]:
  """The references in a file.

  Raises:
    DataError: captions of videos that are in another split than the one to score.
  """
  found = caption_files.read_references(
    path, options.split, options.splits, form=options.format, language=options.language
  )
  if not options.split or options.splits or all(video_id in found for video_id in hypotheses):
    return found
  splits = caption_files.find_splits(path, form=options.format, language=options.language)
  others = {v: splits[v] for v in hypotheses if v not in found and v in splits}
  if others:
    items = [f'{video_id}: {split}' for video_id, split in others.items()]
    raise DataError(
      f'--split={options.split}: {len(others)} of {len(hypotheses)} captions are of videos in '
      f'other splits of {path} ({first_few(items)})',
      items,
    )
  return found
