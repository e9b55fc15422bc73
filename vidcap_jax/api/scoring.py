"""Scores: of a checkpoint on a split of a data set, and of any captions against references."""

import logging
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vidcap_jax.api import decoding, sources
from vidcap_jax.api.captioner import DEVICES, Captioner
from vidcap_jax.api.keywords import named_in_errors
from vidcap_jax.api.sources import PathLike
from vidcap_jax.checkpoints.restore import Restored, with_decode
from vidcap_jax.distributed import runtime
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import clip_score, scoring
from vidcap_jax.evaluation.evaluate import evaluate_command, require_output
from vidcap_jax.evaluation.metrics import METRICS
from vidcap_jax.evaluation.programs import METEOR_SECONDS, Programs
from vidcap_jax.files import read_json
from vidcap_jax.inference.members import find_members, restore_members
from vidcap_jax.inference.predict import as_result
from vidcap_jax.inference.result import Result, Results

_HYPOTHESES = 'give captions by video id, {id: caption}, results of Captioner.caption, or a file'


class Scores(dict[str, Any]):
  """Scores by name: a dictionary, with what they are of.

  Attributes:
    captions: of ``evaluate``: the captions that were scored; else empty.
    by_video: of ``score``: the scores of each video by id; else empty.
    folder: of ``evaluate``: where metrics.json and captions.json are; else None.
    signature: what the scores were computed from and with, in a line; '' where there are none.
    intervals: metric -> ends of its 95 % interval over videos; {} for a single video.

  Example:
    >>> import vidcap_jax as vc
    >>> scores = vc.Scores({'CIDEr': 0.5}, by_video={'v1': {'CIDEr': 0.5}})
    >>> scores, scores['CIDEr'], scores.by_video['v1']
    ({'CIDEr': 0.5}, 0.5, {'CIDEr': 0.5})
  """

  def __init__(
    self,
    scores: Mapping[str, Any],
    captions: Iterable[Result] = (),
    by_video: Mapping[str, Mapping[str, float]] | None = None,
    folder: pathlib.Path | None = None,
    signature: str = '',
    intervals: Mapping[str, Sequence[float]] | None = None,
  ):
    super().__init__(scores)
    self.captions = Results(captions)
    self.by_video = dict(by_video or {})
    self.folder = folder
    self.signature = signature
    self.intervals = {name: tuple(ends) for name, ends in (intervals or {}).items()}


@named_in_errors(*decoding.SETTINGS)
def evaluate(
  checkpoint: PathLike | Sequence[PathLike] | Captioner,
  *,
  data: PathLike | None = None,
  split: str = 'test',
  output: PathLike | None = None,
  fallback: PathLike | Captioner | None = None,
  weights: Sequence[float] | None = None,
  tokenizer: str | None = None,
  meteor: str | None = None,
  scorers: str | None = None,
  embedding_model: PathLike | None = None,
  **decode: Any,
) -> Scores:
  """Captions a split of a data set and scores the captions, as ``vidcap evaluate`` does.

  Writes metrics.json and captions.json, too. A model that compares captions with videos is scored
  by retrieval.

  Args:
    checkpoint: as for ``load``, or a captioner.
    data: the data set folder; None: the one that was trained on.
    split: of the data set.
    output: folder of the results; None: WORKDIR/eval/SPLIT. An ensemble needs one.
    fallback: a checkpoint that captions videos without the features of the first.
    weights: of an ensemble; None: equal weights.
    tokenizer, meteor, scorers, embedding_model: what computes the scores, as for ``score``; None:
      what the checkpoint's config says.
    **decode: decoding settings in place of the checkpoint's, as for ``Captioner.caption``.

  Returns:
    The contents of metrics.json: BLEU_1 to BLEU_4, METEOR, ROUGE_L, CIDEr (fractions; CIDEr may
    exceed 1), constant_CIDEr, the score of the best caption that is the same for every video, and
    what was evaluated on what.

  Raises:
    UserError: no such checkpoint, data set or split; streams that differ from those of training;
      results that can't be written.
    TypeError: an unknown decoding setting.

  Example:
    >>> import vidcap_jax as vc
    >>> scores = vc.evaluate('runs/mine', data='data/mine', split='test')
    >>> scores['videos'], scores.captions[0].video_id, scores.folder.name
    (2, 'v10', 'test')
  """
  if isinstance(checkpoint, Captioner):
    weights = checkpoint.weights if weights is None else weights
  members = _members(checkpoint, weights, decode, 'checkpoint')
  require_output(len(members), output)
  second = _members(fallback, None, decode, 'fallback')[0] if fallback is not None else None
  with DEVICES, runtime.applied(runtime.settings_of_checkpoint(members[0].config)):
    report, folder = evaluate_command(
      members[0],
      None if data is None else os.fspath(data),
      split,
      None if output is None else os.fspath(output),
      second,
      members[1:],
      weights,
      {
        'tokenizer': tokenizer,
        'meteor': meteor,
        'scorers': scorers,
        'embedding_model': None if embedding_model is None else os.fspath(embedding_model),
      },
    )
  captions = folder / 'captions.json'
  made = read_json(captions) if 'decode' in report else []
  return Scores(
    report,
    map(as_result, made),
    folder=pathlib.Path(folder),
    signature=report.get('signature', ''),
    intervals=report.get('intervals'),
  )


def _members(
  checkpoint: PathLike | Sequence[PathLike] | Captioner,
  weights: Sequence[float] | None,
  decode: Mapping[str, Any],
  argument: str,
) -> list[Restored]:
  """The restored checkpoints, with changes to their decoding settings."""
  if isinstance(checkpoint, Captioner):
    members = list(checkpoint.members)
  else:
    paths = find_members(sources.as_list(checkpoint), weights, argument)
    members = restore_members(paths, make_mesh())
  changes = decoding.changes(members[0].config.decode, decode, evaluate)
  return [with_decode(member, changes) for member in members]


@named_in_errors()
def score(
  hypotheses: PathLike | Mapping[str, str] | Iterable[Result],
  references: PathLike | Mapping[str, str | Sequence[str]],
  *,
  metrics: Sequence[str] = METRICS,
  split: str | None = None,
  splits: PathLike | None = None,
  format: str | None = None,
  language: str | None = None,
  by_character: bool = False,
  tokenizer: str = 'auto',
  meteor: str = 'auto',
  scorers: str = 'numpy',
  embedding_model: PathLike | None = None,
  clip_model: PathLike | None = None,
  videos: PathLike | None = None,
  clip_frames: int = clip_score.FRAMES,
  meteor_time_limit: float = METEOR_SECONDS,
  signature: str | os.PathLike[str] | None = None,
) -> Scores:
  """Scores one caption a video, as ``vidcap score`` does.

  Args:
    hypotheses: the captions by video id, results of ``Captioner.caption``, or a file of captions.
    references: each video's captions, or its only one, by its id; an annotation file; or a data set
      folder.
    metrics: any of BLEU, METEOR, ROUGE_L, CIDEr, RefEmbedding, BERTScore, CLIPScore and
      RefCLIPScore, in a list or a text with commas.
    split: score only this split of references in a file; a data set folder needs one.
    splits: a file {split: [ids]}, or a list of ids, in place of the references' own splits.
    format: of references in a file, see ``vidcap build --help``; None: recognized.
    language: which captions of references in a file, where there are several languages.
    by_character: compare Chinese by character.
    tokenizer: what splits captions into tokens, with the same result: 'java', 'python', or 'auto',
      Java if there is one, and else Python.
    meteor: what computes METEOR, with the same values: 'java', 'python', or 'auto', which is Python
      for many references, too, where that is faster.
    scorers: what computes BLEU, ROUGE-L and CIDEr, with the same values: 'numpy' or
      'pycocoevalcap'.
    embedding_model: folder of the encoder of RefEmbedding and BERTScore; None: that of a wheel.
    clip_model: folder of the CLIPModel of CLIPScore and RefCLIPScore.
    videos: folder of the videos, pictures or frames that these two compare captions with.
    clip_frames: evenly spaced frames of a video that CLIP sees.
    meteor_time_limit: seconds that METEOR may take in Java.
    signature: fields that the scores' signature must have, or a JSON file with a signature.

  Returns:
    The scores of all captions together, as fractions; ``by_video`` has those of each video,
    ``intervals`` their 95 % intervals, and ``signature`` what they were computed from and with.

  Raises:
    TypeError: hypotheses or references of another type.
    UserError: videos that don't fit together, files that can't be read, an unknown metric, or
      another signature than the given one.

  Example:
    >>> import vidcap_jax as vc
    >>> scores = vc.score({'v1': 'a dog runs'}, {'v1': ['a dog is running', 'a dog runs']},
    ...                   metrics=['BLEU'])
    >>> round(scores['BLEU_2'], 3), list(scores.by_video)
    (1.0, ['v1'])
  """
  if not isinstance(hypotheses, str | os.PathLike | Iterable):
    kind = type(hypotheses).__name__
    raise TypeError(f'hypotheses: of type {kind}; {_HYPOTHESES}')
  if not isinstance(references, str | os.PathLike | Mapping):
    kind = type(references).__name__
    raise TypeError(
      f"references: of type {kind}; give each video's captions by its id, a file or a data set"
    )
  options = scoring.Options(
    metrics=scoring.metric_names(metrics) if isinstance(metrics, str) else tuple(metrics),
    split=split,
    splits=None if splits is None else os.fspath(splits),
    format=format,
    language=language,
    by_character=by_character,
    programs=Programs(tokenizer, meteor, scorers, _path(embedding_model), meteor_time_limit),
    clip_model=_path(clip_model),
    videos=_path(videos),
    clip_frames=clip_frames,
    signature=None if signature is None else os.fspath(signature),
  )
  if not isinstance(hypotheses, str | os.PathLike | Mapping):
    hypotheses = _captions(hypotheses)
  log = logging.getLogger('vidcap_jax').warning
  scored = scoring.score_captions(hypotheses, references, options, log)
  return Scores(
    scored.corpus,
    by_video=scored.per_video,
    signature=str(scored.signature),
    intervals=scored.intervals,
  )


def _path(path: PathLike | None) -> str:
  return '' if path is None else os.fspath(path)


def _captions(results: Iterable[Result]) -> dict[str, str]:
  """The captions of results by video id.

  Raises:
    DataError: two results of one id, or one that is an error.
    TypeError: one is no result.
  """
  captions: dict[str, str] = {}
  for index, result in enumerate(results):
    if not isinstance(result, Result):
      kind = type(result).__name__
      raise TypeError(f'hypotheses: number {index} is of type {kind}; {_HYPOTHESES}')
    if result.caption is None:
      raise DataError(f'{result.video_id}: has no caption to score: {result.error}')
    if result.video_id in captions:
      raise DataError(f'{result.video_id}: two captions of one video; score one')
    captions[result.video_id] = result.caption
  return captions
