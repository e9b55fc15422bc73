"""Scores captions of any origin against references: files of them, or mappings."""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from vidcap_jax.annotations import caption_files
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError, UserError, first_few
from vidcap_jax.evaluation import clip_score, embedding_score, signature
from vidcap_jax.evaluation.comparison import Comparison, check_same_videos, compare
from vidcap_jax.evaluation.intervals import Interval, score_intervals, statistics_of
from vidcap_jax.evaluation.metrics import (
  ALL_METRICS,
  METRICS,
  ScoreDetails,
  Scores,
  check_metrics,
  different_note,
  java_notes,
  prepare_references,
  score_details,
  split_words,
  start_meteor,
)
from vidcap_jax.evaluation.programs import Programs
from vidcap_jax.evaluation.score_inputs import check_hypotheses, check_references
from vidcap_jax.evaluation.signature import Signature
from vidcap_jax.evaluation.zero_scores import zero_notes
from vidcap_jax.files import check_input

PathLike = str | os.PathLike[str]
References = Mapping[str, str | Sequence[str]]  # each video's captions, or its only one
KNOWN_METRICS = (*ALL_METRICS, *clip_score.METRICS)  # of files of captions


def metric_names(text: str) -> list[str]:
  """The names in a text with commas between them, as of ``--metrics``."""
  return list(filter(None, map(str.strip, text.split(','))))


@dataclasses.dataclass(frozen=True)
class Options:
  """What is scored, and how; ``python -m vidcap_jax.evaluation.metrics --help`` explains each."""

  metrics: Sequence[str] = METRICS
  split: str | None = None
  splits: str | None = None
  format: str | None = None
  language: str | None = None
  by_character: bool = False
  programs: Programs = Programs()
  clip_model: str = ''
  videos: str = ''
  clip_frames: int = clip_score.FRAMES
  signature: str | None = None

  @property
  def clip_metrics(self) -> list[str]:
    """The metrics that need CLIP and the videos."""
    return [name for name in clip_score.METRICS if name in self.metrics]


@dataclasses.dataclass(frozen=True)
class Scored:
  """The scores of all captions together and of each video, with their signature.

  Attributes:
    signature: what the scores were computed from and with.
    corpus, per_video: of ``metrics.score``.
    intervals: metric -> 95 % interval over videos; {} for a single video.
    captions: that were scored.
    different: the number of references that differ, as of ``metrics.References``.
  """

  signature: Signature
  corpus: Scores
  per_video: Mapping[str, Scores]
  intervals: Mapping[str, Interval]
  captions: Mapping[str, str]
  different: int


def score_captions(
  hypotheses: PathLike | Mapping[str, str],
  references: PathLike | References,
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
    ConfigError: an unknown metric, or a signature of another form.
    MetricError: a scoring program failed, or there is no Java where the options ask for it.
  """
  wanted = _checked({'--hypotheses': hypotheses}, references, options)
  captions = _read_captions(hypotheses)
  own_signature, (details,) = _score([captions], references, options, wanted, log)
  return Scored(
    own_signature,
    details.corpus,
    details.per_video,
    score_intervals(statistics_of(details)),
    captions,
    details.references.different,
  )


def compare_captions(
  files: tuple[PathLike, PathLike],
  references: PathLike | References,
  options: Options,
  log: Callable[[str], None],
) -> Comparison:
  """Scores the captions of two systems, and tests whether the scores differ.

  Args:
    files: of captions, one of each system.
    references, options, log: as of ``score_captions``.

  Raises:
    DataError: the systems captioned different videos; or as of ``score_captions``.
    UserError: a single video.
  """
  wanted = _checked({f'--compare, {name}': name for name in files}, references, options)
  names = os.fspath(files[0]), os.fspath(files[1])
  captions = [_read_captions(file) for file in files]
  check_same_videos(names, captions)
  own_signature, details = _score(captions, references, options, wanted, log)
  first, second = map(statistics_of, details)
  return Comparison(own_signature, names, len(first.ids), compare(first, second))


def _checked(
  hypotheses: Mapping[str, PathLike | Mapping], references: PathLike | References, options: Options
) -> Signature | None:
  """Checks what can be checked before files are read; returns the signature that is wanted."""
  for flag, path in {**hypotheses, '--references': references}.items():
    if not isinstance(path, Mapping):
      check_input(flag, path, 'a file')
      if flag != '--references' and os.path.isdir(path):
        flag = flag.partition(',')[0]
        raise UserError(f'{flag}={os.fspath(path)}: a folder; give a file of captions in it')
  check_metrics(options.metrics, KNOWN_METRICS)
  wanted = None if options.signature is None else signature.read(options.signature)
  _check_read(options)
  options.programs.require(options.metrics, '--')
  if options.clip_metrics:
    clip_score.check(options.clip_model, options.videos, options.clip_frames)
  return wanted


def _check_read(options: Options) -> None:
  """Raises UserError for an option that none of the metrics reads."""
  frames = options.clip_frames
  for flag, value, readers in (
    ('--embedding_model', options.programs.embedding_model, embedding_score.METRICS),
    ('--clip_model', options.clip_model, clip_score.METRICS),
    ('--videos', options.videos, clip_score.METRICS),
    ('--clip_frames', '' if frames == clip_score.FRAMES else frames, clip_score.METRICS),
  ):
    if value != '' and set(readers).isdisjoint(options.metrics):
      raise UserError(
        f'{flag}={value}: read for {" and ".join(readers)}; add one of them to --metrics'
      )


def _read_captions(hypotheses: PathLike | Mapping[str, str]) -> Mapping[str, str]:
  if isinstance(hypotheses, Mapping):
    return hypotheses
  return caption_files.read_hypotheses(os.fspath(hypotheses))


def _score(
  systems: Sequence[Mapping[str, str]],
  references: PathLike | References,
  options: Options,
  wanted: Signature | None,
  log: Callable[[str], None],
) -> tuple[Signature, list[ScoreDetails]]:
  """The signature of the scores, and the scores of each system's captions of the same videos."""
  if isinstance(references, Mapping):
    by_video: Mapping[str, Sequence[str]] = {
      v: [c] if isinstance(c, str) else list(c) if isinstance(c, Iterable) else c
      for v, c in references.items()
    }
  else:
    by_video = _read_references(os.fspath(references), systems[0], options)
  check_references(by_video)
  for captions in systems:
    check_hypotheses(captions, by_video)
  own_signature = _signature_of(references, by_video, options)
  if wanted is not None:
    signature.check(wanted, own_signature, log)
  for note in java_notes(options.programs):
    log(note)
  split = functools.partial(split_words, by_character=options.by_character)
  for note in zero_notes(list(by_video.values()), options.metrics, split):
    log(note)
  sources = clip_score.find_videos(options.videos, list(by_video)) if options.clip_metrics else {}
  with contextlib.ExitStack() as stack:
    process = None
    if 'METEOR' in options.metrics:  # it starts while references are tokenised
      process = stack.enter_context(start_meteor(options.programs, by_video.values()))
    prepared = prepare_references(
      by_video, by_character=options.by_character, programs=options.programs
    )
    if prepared.different:
      log(different_note(prepared))
    if sources:
      model = clip_score.load_model(options.clip_model)
      videos = clip_score.embed_videos(sources, model, options.clip_frames, log)
    details = [
      score_details(
        captions,
        prepared,
        [name for name in options.metrics if name in ALL_METRICS],
        meteor_process=process,
      )
      for captions in systems
    ]
  if sources:
    details = [
      _with_clip(each, captions, by_video, videos, options)
      for each, captions in zip(details, systems, strict=True)
    ]
  return own_signature, details


def _with_clip(
  details: ScoreDetails,
  captions: Mapping[str, str],
  references: Mapping[str, Sequence[str]],
  videos: np.ndarray,
  options: Options,
) -> ScoreDetails:
  """Adds CLIPScore and RefCLIPScore; the videos' embeddings are in the order of the references."""
  tokens = zip(details.ids, details.tokens, strict=True)
  values = clip_score.score(
    [captions[video_id] if words else '' for video_id, words in tokens],
    [references[video_id] for video_id in details.ids],
    videos,
    clip_score.load_model(options.clip_model),
    options.clip_metrics,
  )
  means = {name: float(scores.mean()) for name, scores in values.items()}
  return dataclasses.replace(
    details, corpus={**details.corpus, **means}, values={**details.values, **values}
  )


def _signature_of(
  references: PathLike | References, by_video: Mapping[str, Sequence[str]], options: Options
) -> Signature:
  data_set = not isinstance(references, Mapping) and os.path.isdir(references)
  clip = ''
  if options.clip_metrics:
    digest = clip_score.load_model(options.clip_model).digest
    clip = f'{digest},frames={options.clip_frames}'
  return signature.of_captions(
    by_video,
    by_character=options.by_character,
    programs=options.programs,
    encoder=options.programs.encoder(options.metrics),
    clip=clip,
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
