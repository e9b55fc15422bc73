"""Validation during training: scores of a split, the best so far, and when to stop."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.data.batch import empty_batch
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.texts import read_texts
from vidcap_jax.distributed.mesh import by_row, is_main
from vidcap_jax.evaluation import retrieval, retrieve
from vidcap_jax.evaluation.zero_scores import zero_scores
from vidcap_jax.inference import captioning
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.training import compiled
from vidcap_jax.training.checks import check_scores
from vidcap_jax.training.metric_log import Sample
from vidcap_jax.training.stage import Stage

SAMPLES = 3  # videos whose captions are logged: the first of the split, the same each time


@dataclasses.dataclass(frozen=True)
class Validation:
  """The results of a validation.

  Attributes:
    scores: by name; {} on processes that do not score.
    samples: captions of the first videos of the split, each beside the video's first reference;
      empty for a model that makes none.
    signature: of the scores, see ``signature.Signature``; '' where there are none.
  """

  scores: Mapping[str, float]
  samples: Sequence[Sample] = ()
  signature: str = ''

  @property
  def record(self) -> dict[str, Any]:
    """What metrics.jsonl has of it."""
    return {**self.scores, **({'signature': self.signature} if self.signature else {})}


Validator = Callable[[Any], Validation]


def make_validation_decoder(config: ConfigDict, stage: Stage, mesh: Mesh) -> compiled.Behind | None:
  """What captions the validation split, to be compiled while training begins.

  None for a model that makes no captions.

  Args:
    config: the stage's own.
    stage: its parts.
    mesh: of all devices.
  """
  if not is_captioner(stage.module):
    return None
  shape = stage.shape
  decode = captioning.make_decoder(
    stage.module, shape.streams, stage.vocabulary, config, shape.length, mesh
  )
  rows, length = captioning.eval_rows(config, mesh), captioning.eval_length(config)
  single = empty_batch(shape.streams, shape.sizes, 1, 1, length)
  batch = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype, sharding=by_row(mesh)), single
  )
  return compiled.Behind(decode, 'validation', batch)


def make_validator(
  config: ConfigDict,
  stage: Stage,
  mesh: Mesh,
  key_frames: Mapping[str, int],
  log: Callable[[str], None],
  decoder: compiled.Behind | None,
) -> Validator:
  """params -> results on the validation split.

  A captioner's captions are scored; a model that makes none is scored by retrieval. References are
  tokenised once, and a missing Java is found, before training begins.

  Args:
    config: the stage's own.
    stage: its parts.
    mesh: of all devices.
    key_frames: by video id, for models that take them from outside.
    log: prints a line if ``eval.metric`` is the same for any parameters.
    decoder: from ``make_validation_decoder``.
  """
  module, vocabulary, streams = stage.module, stage.vocabulary, stage.shape.streams
  source = attach(open_split(config.data.dir, config.data.val_split), key_frames)
  texts = read_texts(source, config.data.threads)

  def batches():
    return captioning.eval_batches(source, vocabulary, streams, module.config.needs, config, mesh)

  if decoder is None:
    retrieve.check_validation(config.eval, config.data.val_split, texts)
    if reason := retrieval.perfect_score(config.eval.metric, [len(v.captions) for v in texts]):
      log(_cannot_choose(config, reason))
    length = stage.shape.length
    rank = retrieve.make_ranker(config, module, streams, vocabulary, length, mesh)
    own_signature = _retrieval_signature(config, stage, texts)

    def validate(params):
      ranks = rank(params, batches(), texts)
      scores = retrieval.scores(ranks.video_to_text, ranks.text_to_video)
      return Validation(scores, signature=own_signature)

    return validate
  zero = zero_scores([v.captions for v in texts], vocabulary.tokenize)
  if config.eval.metric in zero:
    log(_cannot_choose(config, f'is 0 for any captions: {zero[config.eval.metric]}'))
  return _caption_validator(config, stage, mesh, batches, texts, decoder)


def _cannot_choose(config: ConfigDict, reason: str) -> str:
  """The line that the metric is the same for all checkpoints."""
  patience = config.eval.patience
  return (
    f'warning: eval.metric={config.eval.metric} over split {config.data.val_split!r} {reason}. It '
    'cannot choose the best checkpoint, so the last one is kept'
    + (f', and training ends after eval.patience={patience} validations' if patience else '')
    + '; validate on more videos, or by another metric'
  )


def _caption_validator(
  config: ConfigDict, stage: Stage, mesh: Mesh, batches, texts, decode: compiled.Behind
) -> Validator:
  """params -> scores of the captions that a model makes; see ``make_validator``."""
  from vidcap_jax.evaluation import metrics, signature
  from vidcap_jax.evaluation.programs import of_config

  check_scores(config.eval, stage.module)
  vocabulary = stage.vocabulary
  ids = [video.video_id for video in texts]
  references, own_signature = None, ''
  if is_main():
    by_video = {v.video_id: list(v.captions) for v in texts}
    programs, by_character = of_config(config.eval), vocabulary.by_character
    references = metrics.prepare_references(by_video, by_character=by_character, programs=programs)
    own_signature = str(
      signature.of_captions(
        by_video,
        by_character=by_character,
        programs=programs,
        encoder=programs.encoder(config.eval.metrics),
        split=config.data.val_split,
        data_hash=stage.manifest.hash,
        decode=config.decode.to_dict(),
      )
    )

  def validate(params):
    captions = captioning.caption_videos(decode, params, batches(), ids, vocabulary, mesh)
    if references is None:
      return Validation({})
    hypotheses = {c['video_id']: c['caption'] for c in captions}
    scores, _ = metrics.score(hypotheses, references, metrics=config.eval.metrics)
    log_prob = sum(c['log_prob'] for c in captions) / len(captions)
    distinct = len(set(hypotheses.values()))
    samples = [Sample(v.video_id, hypotheses[v.video_id], v.captions[0]) for v in texts[:SAMPLES]]
    scores |= {'log_prob': log_prob, 'distinct_captions': distinct}
    return Validation(scores, samples, own_signature)

  return validate


def _retrieval_signature(config: ConfigDict, stage: Stage, texts: Sequence[Video]) -> str:
  """The signature of retrieval in the validation split."""
  from vidcap_jax.evaluation import signature

  found = signature.of_retrieval(
    {video.video_id: video.captions for video in texts},
    split=config.data.val_split,
    data_hash=stage.manifest.hash,
    vocabulary_hash=stage.vocabulary.hash,
  )
  return str(found)


def update_progress(progress: dict, step: int, score: float, patience: int) -> None:
  """Early stopping: counts validations since the best score."""
  best = progress['best_score']
  better = score == score and (best is None or score > best)
  if better or score == best:  # of equal scores, the latest checkpoint counts as the best
    progress.update(best_score=score, best_step=step)
  progress['since_best'] = 0 if better else progress['since_best'] + 1
  progress['stopped'] = bool(patience) and progress['since_best'] >= patience


def validation_line(step: int, scores: Mapping, progress: Mapping, metric: str) -> str:
  """The progress line of a validation."""
  shown = '  '.join(f'{k} {v:.4f}' for k, v in scores.items() if k != 'distinct_captions')
  if 'distinct_captions' in scores:
    shown += f'  {scores["distinct_captions"]} distinct captions'
  best = progress['best_score']
  best = 'none yet' if best is None else f'{best:.4f} at step {progress["best_step"]}'
  return f'step {step} validation: {shown}; best {metric} {best}'
