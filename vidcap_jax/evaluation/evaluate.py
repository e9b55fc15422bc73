"""Decodes a split and scores it: the same code for validation, test and a checkpoint alone."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from vidcap_jax.checkpoints.restore import Restored, require_captioner
from vidcap_jax.counts import counted
from vidcap_jax.data.key_frames import lacking
from vidcap_jax.data.records import SplitSource, Video, open_split
from vidcap_jax.data.schema import Manifest, read_manifest
from vidcap_jax.data.texts import read_texts
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import (
  candidates,
  diversity,
  embedding_score,
  intervals,
  metrics,
  results,
  retrieval,
  retrieval_intervals,
  retrieve,
  signature,
  submission,
)
from vidcap_jax.evaluation.constant import constant_baseline
from vidcap_jax.evaluation.meteor_python import choose_meteor
from vidcap_jax.evaluation.programs import Programs, of_config
from vidcap_jax.evaluation.zero_scores import zero_notes
from vidcap_jax.files import check_output, write_json
from vidcap_jax.inference.captioning import (
  CaptionerGroup,
  CaptionFn,
  batches_of,
  captioner_of,
  ensemble_of,
)
from vidcap_jax.inference.fallback import fill_in
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.models.streams import differences, select_streams


@dataclasses.dataclass(frozen=True)
class Split:
  """A split to evaluate on: its name, its records, and its videos without features."""

  name: str
  source: SplitSource
  videos: Sequence[Video]

  @property
  def label(self) -> str:
    """The label of the progress line."""
    return f'captioning {self.name}'


def check_streams(restored: Restored, manifest: Manifest, directory: str) -> None:
  """Checks that a data set's streams are those that the checkpoint's model was trained on.

  Raises:
    DataError: a stream is missing, or differs in kind, width, extractor, version or sampling.
  """
  streams = select_streams(
    restored.module.config.needs, manifest.streams, f'the data set {directory}'
  )
  for trained, given in zip(restored.streams, streams):
    for field, (trained_value, given_value) in differences(trained, given).items():
      raise DataError(
        f'stream {trained.name!r}: the checkpoint was trained on {field} {trained_value!r}, '
        f'the data set {directory} has {given_value!r}; build the data set with the same features'
      )


def evaluate(
  restored: Restored,
  directory: str,
  split: str,
  output: epath.Path,
  fallback: Restored | None = None,
  group: CaptionerGroup | None = None,
  programs: Programs | None = None,
) -> dict:
  """Scores a checkpoint on a split and writes the results.

  A captioner captions the split, and its captions are scored if there are references. A model that
  makes no captions is scored by retrieval.

  Args:
    restored: the checkpoint, with any changes to ``config.decode`` already made.
    directory: the data set; it may have been built later than the checkpoint.
    split: of the data set.
    output: folder for metrics.json; of a captioner also captions.json and, without references,
      submission files.
    fallback: a checkpoint that captions the videos which lack the first one's features.
    group: an ensemble or late fusion whose first member is ``restored``; it makes the captions.
    programs: that compute the scores; None: those of the checkpoint's config.

  Returns:
    The contents of metrics.json.

  Raises:
    DataError: the split or a stream is missing, or some videos have references and others none.
    ConfigError: a fallback that makes no captions, or for a model that makes none.
    MetricError: scoring failed after captions.json was written, and the
      message says how to score that file.
  """
  manifest = read_manifest(directory)
  if split not in manifest.splits:
    raise DataError(f'{directory} has no split {split!r}; it has: {", ".join(manifest.splits)}')
  members = group.members if group else (restored,)
  for model in filter(None, (*members, fallback)):
    check_streams(model, manifest, directory)
  if fallback is not None:
    require_captioner(restored)
    require_captioner(fallback)
  programs = programs or of_config(restored.config.eval)
  source = open_split(directory, split)
  data = Split(split, source, read_texts(source, restored.config.data.threads))
  if is_captioner(restored.module):
    caption = group.caption if group else captioner_of(restored, label=data.label)
    report = _score_captions(members, caption, fallback, data, output, programs)
  else:
    report = _score_retrieval(restored, data)
  report |= group.report if group else {}
  report |= _origin(restored, manifest, directory, data, programs)
  if mesh.is_main():
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / 'metrics.json', report, ensure_ascii=False)
  return report


def _origin(
  restored: Restored, manifest: Manifest, directory: str, data: Split, programs: Programs
) -> dict[str, Any]:
  """The part of metrics.json that says what was evaluated on what."""
  report = {
    'split': data.name,
    'videos': len(data.videos),
    'references': any(video.captions for video in data.videos),
    'checkpoint': str(restored.path),
    'checkpoint_step': int(restored.path.name),
    'stage': restored.meta['stage'],
    'data': {
      'dir': directory,
      'hash': manifest.hash,
      'name': manifest.name,
      'coverage': manifest.coverage.get(data.name),  # None in data sets built before it existed
    },
    'vocabulary_hash': restored.vocabulary.hash,
    'versions': results.versions(),
  }
  if report['references']:
    report['signature'] = str(_signature(restored, manifest, data, programs))
  if restored.key_frames:
    report['key_frames'] = lacking(restored.key_frames, [v.video_id for v in data.videos])
  return report


def _signature(
  restored: Restored, manifest: Manifest, data: Split, programs: Programs
) -> signature.Signature:
  """The signature of the scores of a split."""
  references = {video.video_id: video.captions for video in data.videos}
  split, data_hash = data.name, manifest.hash
  if not is_captioner(restored.module):
    vocabulary_hash = restored.vocabulary.hash
    return signature.of_retrieval(
      references, split=split, data_hash=data_hash, vocabulary_hash=vocabulary_hash
    )
  return signature.of_captions(
    references,
    by_character=restored.vocabulary.by_character,
    programs=programs,
    encoder=programs.encoder(metrics.evaluated_metrics(restored.config.eval)),
    split=split,
    data_hash=data_hash,
    decode=restored.config.decode.to_dict(),
  )


def _score_captions(
  members: Sequence[Restored],
  caption: CaptionFn,
  fallback: Restored | None,
  data: Split,
  output: epath.Path,
  programs: Programs,
) -> dict[str, Any]:
  """Captions a split, scores the captions, and writes both."""
  restored = members[0]
  references = None
  if any(video.captions for video in data.videos):
    programs.require(metrics.evaluated_metrics(restored.config.eval), '--')
    for note in metrics.java_notes(programs):
      print(note, file=sys.stderr)
    references = metrics.prepare_references(
      {video.video_id: list(video.captions) for video in data.videos},
      by_character=restored.vocabulary.by_character,
      programs=programs,
    )
  report: dict[str, Any] = {}
  # Before the work, as this raises if the fallback can't be used.
  fallback_label = f'{data.label} by the fallback'
  caption_again = captioner_of(fallback, label=fallback_label) if fallback else None
  captions = caption(data.source, [video.video_id for video in data.videos])
  if fallback and caption_again:
    captions, report['fallback'] = fill_in(captions, restored, fallback, caption_again, data.source)
  hypotheses = {c['video_id']: c['caption'] for c in captions}
  training_captions = restored.meta.get('captions')
  report |= diversity.describe(list(hypotheses.values()), restored.vocabulary, training_captions)
  report |= {'decode': restored.config.decode.to_dict()}
  if not mesh.is_main():
    return report
  output.mkdir(parents=True, exist_ok=True)
  (output / 'metrics.json').unlink(missing_ok=True)  # it belongs to earlier captions
  # Before scoring, which may fail.
  write_json(output / 'captions.json', captions, ensure_ascii=False)
  if references is not None:
    path = output / 'captions.json'
    return _reference_scores(restored, captions, references, data, path) | report
  submission.write(output, hypotheses, [*members, *([fallback] if fallback else [])])
  return report


def _reference_scores(
  restored: Restored,
  captions: Sequence[dict],
  references: metrics.References,
  data: Split,
  path: epath.Path,
) -> dict[str, Any]:
  """The scores of captions against references, and those of the best constant caption.

  Raises:
    MetricError: scoring failed; the message says how to score the file ``path`` of the captions.
  """
  texts = [video.captions for video in data.videos]
  for note in zero_notes(texts, metrics.METRICS, restored.vocabulary.tokenize):
    print(note, file=sys.stderr)
  if references.different:
    print(metrics.different_note(references), file=sys.stderr)
  slow = choose_meteor(references.programs.meteor, references.captions.values()) == 'java'
  start = '; METEOR alone takes 10 to 20 seconds to start' if slow else ''
  scored = f'scoring {counted(len(captions), "caption")} of {data.name}{start}'
  print(scored, file=sys.stderr, flush=True)
  try:
    hypotheses = {c['video_id']: c['caption'] for c in captions}
    names = metrics.evaluated_metrics(restored.config.eval)
    details = metrics.score_details(hypotheses, references, names)
    candidate_scores = candidates.score(captions, references)
    constant = _constant(references, restored.meta['top_captions'])
  except metrics.MetricError as error:
    advice = results.how_to_score(path, data.source.directory, data.name, references)
    raise metrics.MetricError(f'{error}\n{advice}') from error
  counts = {'different_references': references.different} if references.different else {}
  ends = intervals.score_intervals(intervals.statistics_of(details))
  measured = {'intervals': {name: list(interval) for name, interval in ends.items()}}
  return {**details.corpus, **measured, **constant, **candidate_scores, **counts}


def _constant(references: metrics.References, captions: Sequence[str]) -> dict[str, Any]:
  """The best constant caption of those given; {} if an imported checkpoint has none."""
  if not captions:
    return {}
  best, value = constant_baseline(references, captions)
  return {'constant_CIDEr': value, 'constant_caption': best}


def _score_retrieval(restored: Restored, data: Split) -> dict[str, Any]:
  """How well a split's videos and captions find each other."""
  captions = sum(len(video.captions) for video in data.videos)
  if not captions:
    return {'captions': 0}
  rank = retrieve.make_ranker(
    restored.config,
    restored.module,
    restored.streams,
    restored.vocabulary,
    restored.length,
    restored.mesh,
    f'embedding captions of {data.name}',
  )
  batches = batches_of(restored, data.source, label=f'embedding videos of {data.name}')
  ranks = rank(restored.params, batches, data.videos)
  ends = retrieval_intervals.score_intervals(ranks)
  measured = {'intervals': {name: list(interval) for name, interval in ends.items()}}
  scores = retrieval.scores(ranks.video_to_text, ranks.text_to_video)
  return {**scores, **measured, 'captions': captions}


def require_output(members: int, output: Any) -> None:
  """Raises UserError for an ensemble without a folder for its results, before it is restored."""
  if members > 1 and not output:
    raise UserError('an ensemble has no default output folder; pass --output=DIR')


def _embeds(restored: Restored) -> bool:
  """Whether a checkpoint's captions are scored by a sentence encoder."""
  names = metrics.evaluated_metrics(restored.config.eval)
  return not set(embedding_score.METRICS).isdisjoint(names)


def evaluate_command(
  restored: Restored,
  directory: str | None,
  split: str,
  output: str | None,
  fallback: Restored | None = None,
  others: Sequence[Restored] = (),
  weights: Sequence[float] | None = None,
  programs: Mapping[str, str | None] | None = None,
) -> tuple[dict[str, Any], epath.Path]:
  """``evaluate`` with the default data set and folder, as ``--mode=evaluate`` does.

  Args:
    restored, directory, split, output, fallback: of ``evaluate``; None: the defaults.
    others: further checkpoints of an ensemble.
    weights: of an ensemble; None: equal weights.
    programs: options of ``Programs`` in place of those of the checkpoint's config.

  Returns:
    The contents of metrics.json, and the folder that it was written to.

  Raises:
    UserError: the data set that was trained on is not there and no other is given; the checkpoint
      is in no workdir and no ``output`` is given; an ensemble without ``output``; the results can't
      be written; or as for ``evaluate``.
  """
  require_output(1 + len(others), output)
  directory = restored.data_folder(directory)
  folder = epath.Path(output) if output else results.folder_of(restored) / split
  if mesh.is_main():
    check_output('--output', folder, folder=True)
  members = (restored, *others)
  label = f'captioning {split}'
  group = ensemble_of(members, weights, label=label) if others else None
  given = programs or {}
  if (model := given.get('embedding_model')) and not _embeds(restored):
    raise UserError(
      f'--embedding_model={model}: read for {" and ".join(embedding_score.METRICS)}, and the '
      "checkpoint's config.eval.metrics has neither; score its captions.json by vidcap score"
    )
  chosen = of_config(restored.config.eval).changed(given)
  return evaluate(restored, directory, split, folder, fallback, group, chosen), folder
