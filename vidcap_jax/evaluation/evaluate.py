"""Decoding a split and scoring it: one code for validation, test and a checkpoint alone."""

import importlib.metadata
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints.restore import Restored, require_captioner
from vidcap_jax.data.key_frames import lacking
from vidcap_jax.data.records import SplitSource, Video, VideoSource, open_split
from vidcap_jax.data.schema import Manifest, read_manifest
from vidcap_jax.data.texts import read_texts
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import retrieval, retrieve
from vidcap_jax.files import absolute, check_output, write_json
from vidcap_jax.inference.captioning import Caption, Together, batches_of, captioner_of, ensemble_of
from vidcap_jax.inference.fallback import fill_in
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.models.streams import differences, select_streams

SCORED = ('train', 'fuse')  # tasks whose stages make captions or rank them


def check_streams(restored: Restored, manifest: Manifest, directory: str) -> None:
  """Whether a data set's streams are those that the checkpoint's model was trained on.

  Raises:
    DataError: one is missing, or differs in kind, width, extractor, version or sampling.
  """
  found = select_streams(
    restored.module.config.needs, manifest.streams, f'the data set {directory}'
  )
  for ours, theirs in zip(restored.streams, found):
    for field, (trained, given) in differences(ours, theirs).items():
      raise DataError(
        f'stream {ours.name!r}: the checkpoint was trained on {field} {trained!r}, '
        f'the data set {directory} has {given!r}; build the data set with the same features'
      )


def evaluate(
  restored: Restored,
  directory: str,
  split: str,
  output: epath.Path,
  fallback: Restored | None = None,
  together: Together | None = None,
) -> dict:
  """Scores a checkpoint on a split, and writes what was found.

  A captioner captions the split, and its captions are scored if there are references. A model that
  makes no captions is scored by retrieval.

  Args:
    restored: the checkpoint, with any changes to ``config.decode`` already made.
    directory: the data set; it may have been built later than the checkpoint.
    split: of the data set.
    output: folder for metrics.json; of a captioner also captions.json and, without references,
      submission files.
    fallback: a checkpoint that captions the videos which lack the first one's features.
    together: checkpoints of which ``restored`` is the first, if the captions are those that they
      make together: an ensemble or late fusion.

  Returns:
    The contents of metrics.json.

  Raises:
    DataError: the split or a stream is missing.
    ConfigError: a fallback that makes no captions, or for a model that makes none.
    MetricError: some videos of the split have references and others none; or scoring failed, after
      captions.json was written: says how to score that.
  """
  manifest = read_manifest(directory)
  if split not in manifest.splits:
    raise DataError(f'{directory} has no split {split!r}; it has: {", ".join(manifest.splits)}')
  members = together.members if together else (restored,)
  for model in filter(None, (*members, fallback)):
    check_streams(model, manifest, directory)
  if fallback is not None:
    require_captioner(restored)
    require_captioner(fallback)
  source = open_split(directory, split)
  texts = read_texts(source, restored.config.data.threads)
  if is_captioner(restored.module):
    caption = together.caption if together else captioner_of(restored, label=_label(split))
    report = _score_captions(members, caption, fallback, source, split, texts, output)
  else:
    report = _score_retrieval(restored, source, split, texts)
  report |= together.report if together else {}
  report |= {
    'split': split,
    'videos': len(texts),
    'references': any(video.captions for video in texts),
    'checkpoint': str(restored.path),
    'checkpoint_step': int(restored.path.name),
    'stage': restored.meta['stage'],
    'data': {
      'dir': directory,
      'hash': manifest.hash,
      'name': manifest.name,
      'coverage': manifest.coverage.get(split),  # None: built before it was counted
    },
    'vocabulary_hash': restored.vocabulary.hash,
    'versions': versions(),
  }
  if restored.key_frames:
    report['key_frames'] = lacking(restored.key_frames, [video.video_id for video in texts])
  if mesh.is_main():
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / 'metrics.json', report, ensure_ascii=False)
  return report


def _score_captions(
  members: Sequence[Restored],
  caption: Caption,
  fallback: Restored | None,
  source: SplitSource,
  split: str,
  texts: Sequence[Video],
  output: epath.Path,
) -> dict[str, Any]:
  """Captions of a split, their scores, and the files of both."""
  from vidcap_jax.evaluation import candidates, diversity, metrics, submission
  from vidcap_jax.evaluation.constant import constant_baseline
  from vidcap_jax.evaluation.java import MetricError, require_java

  restored = members[0]
  ids = [video.video_id for video in texts]
  references = None
  if any(video.captions for video in texts):
    require_java()
    references = metrics.prepare_references(
      {v.video_id: list(v.captions) for v in texts}, by_character=restored.vocabulary.by_character
    )
  report: dict[str, Any] = {}
  # What is wrong with the fallback is found here.
  again = captioner_of(fallback, label=f'{_label(split)} by the fallback') if fallback else None
  captions = caption(source, ids)
  if fallback and again:
    captions, report['fallback'] = fill_in(captions, restored, fallback, again, source)
  hypotheses = {c['video_id']: c['caption'] for c in captions}
  trained = restored.meta.get('captions')
  report |= diversity.describe(list(hypotheses.values()), restored.vocabulary, trained)
  report |= {'decode': restored.config.decode.to_dict()}
  if not mesh.is_main():
    return report
  output.mkdir(parents=True, exist_ok=True)
  (output / 'metrics.json').unlink(missing_ok=True)  # of other captions
  write_json(output / 'captions.json', captions, ensure_ascii=False)  # whatever scoring comes to
  if references is not None:
    print(
      f'scoring {len(captions)} captions of {split}; METEOR alone takes 10 to 20 seconds to start',
      file=sys.stderr,
      flush=True,
    )
    try:
      scores, _ = metrics.score(hypotheses, references)
      report |= candidates.score(captions, references)
      best, value = constant_baseline(references, restored.meta['top_captions'])
    except MetricError as error:
      path, by_character = output / 'captions.json', references.by_character
      raise MetricError(
        f'{error}\n{_advice(path, source.directory, split, by_character)}'
      ) from error
    report = {**scores, 'constant_CIDEr': value, 'constant_caption': best} | report
  else:
    submission.write_vatex(output / 'submission_vatex.json', hypotheses)
    used = _external_data([*members, fallback] if fallback else members)
    submission.write_msrvtt(output / 'submission_msrvtt.json', hypotheses, ', '.join(used) or None)
  return report


def _label(split: str) -> str:
  """Of the progress line."""
  return f'captioning {split}'


def _external_data(models: Sequence[Restored]) -> list[str]:
  """What was trained on other data: challenges ask that it be declared."""
  streams = [stream for model in models for stream in model.streams]
  networks = {s.extractor or f'network of stream {s.name!r}: not recorded' for s in streams}
  files = {model.config.train.get('word_vectors') for model in models}
  words = {f'word vectors {epath.Path(file).name}' for file in files if file}
  return [*sorted(networks), *sorted(words)]


def _advice(captions: epath.Path, directory: str, split: str, by_character: bool) -> str:
  """How captions that could not be scored can be, for people."""
  command = ['python', '-m', 'vidcap_jax.evaluation.metrics', f'--hypotheses={captions}']
  command += [f'--references={directory}', f'--split={split}']
  command += ['--by_character'] if by_character else []
  return (
    f'the captions are in {captions}; this scores them, with --meteor_time_limit=SECONDS for more '
    f'time or --metrics=BLEU,ROUGE_L,CIDEr without METEOR:\n  {shlex.join(command)}'
  )


def _score_retrieval(
  restored: Restored, source: VideoSource, split: str, texts: Sequence[Video]
) -> dict[str, Any]:
  """How well a split's videos and captions find each other."""
  captions = sum(len(video.captions) for video in texts)
  if not captions:
    return {'captions': 0}
  about = (restored.config, restored.module, restored.streams, restored.vocabulary)
  score = retrieve.make_scorer(
    *about, restored.length, restored.mesh, f'embedding captions of {split}'
  )
  batches = batches_of(restored, source, label=f'embedding videos of {split}')
  return {**score(restored.params, batches, texts), 'captions': captions}


def scored_stages(config: ConfigDict) -> list[str]:
  """Those stages of a config that make captions or rank them, in the order they run."""
  task = config.get('task', 'train')
  return [name for name in config.order if config.stages[name].get('task', task) in SCORED]


def results_of(stage: str, config: ConfigDict, workdir: epath.Path) -> epath.Path:
  """The folder of a stage's results by split: those of the last one are the run's own."""
  last = stage == scored_stages(config)[-1]
  return workdir / 'eval' if last else workdir / 'eval' / stage


def _results_of_checkpoint(restored: Restored) -> epath.Path:
  """As ``results_of``, of a checkpoint that lies in the workdir of its run."""
  stage, path = restored.meta['stage'], absolute(restored.path)  # WORKDIR/checkpoints/STAGE/STEP
  checkpoints = path.parent.parent
  if checkpoints.name != 'checkpoints':
    raise UserError(
      f'{path} is not in WORKDIR/checkpoints/{stage}, so its results have no place of their own; '
      'say where to write them: --output=DIR'
    )
  return results_of(stage, restored.config, checkpoints.parent)


def evaluate_command(
  restored: Restored,
  directory: str | None,
  split: str,
  output: str | None,
  fallback: Restored | None = None,
  others: Sequence[Restored] = (),
  weights: Sequence[float] | None = None,
) -> None:
  """``--mode=evaluate``: where the data and results are by default, and what is printed.

  Raises:
    UserError: what is evaluated belongs to no workdir, and no ``output`` is given; or the results
      can't be written to the workdir; or as ``evaluate``.
  """
  directory = directory or restored.config.data.dir
  folder = epath.Path(output) if output else _results_of_checkpoint(restored) / split
  if not output and mesh.is_main():
    check_output('--output', folder, folder=True)
  members = (restored, *others)
  together = ensemble_of(members, weights, label=_label(split)) if others else None
  report = evaluate(restored, directory, split, folder, fallback, together)
  if mesh.is_main():
    paths = ' + '.join(str(member.path) for member in members)
    print(f'{split}, {paths}: {summary(report)}\nwritten to {folder}', flush=True)


def versions() -> dict[str, str]:
  """Of the packages that results depend on."""
  names = ('vidcap_jax', 'jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'pycocoevalcap')
  found = {}
  for name in names:
    try:
      found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout, not installed
      found[name] = 'not installed'
  return found


def summary(report: Mapping) -> str:
  """A report's scores in a few lines."""
  if report.get('captions'):
    return f'{report["videos"]} videos, {report["captions"]} captions\n{retrieval.summary(report)}'
  if 'captions' in report:
    return f'{report["videos"]} videos, no captions to retrieve'
  lines = []
  if report['references']:
    names = ('BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr', 'constant_CIDEr')
    lines.append('  '.join(f'{name} {report[name]:.4f}' for name in names))
    if 'oracle_CIDEr' in report:
      lines.append(
        f'of {report["candidates"]} candidates a video: always the best CIDEr '
        f'{report["oracle_CIDEr"]:.4f}, one at random {report["random_CIDEr"]:.4f}'
      )
  else:
    lines.append('no references to score the captions with')
  lines.append(_variety(report))
  if 'key_frames' in report:
    lines.append(report['key_frames'])
  if filled := report.get('fallback'):
    lines.append(f'{filled["videos"]} of them filled in from {filled["checkpoint"]}')
    if neither := filled['without_features_of_either']:
      lines[-1] += f'; {neither} videos lack the features of both'
  return '\n'.join(lines)


def side_by_side(reports: Mapping[str, Mapping[str, Mapping]]) -> str:
  """Scores of several stages' captions, a table for each split.

  Args:
    reports: stage -> split -> the contents of metrics.json; stages without captions are left out.
  """
  names = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr')
  width = max(map(len, reports))
  lines = []
  for split in dict.fromkeys(split for of_stage in reports.values() for split in of_stage):
    rows = {stage: of_stage.get(split, {}) for stage, of_stage in reports.items()}
    rows = {stage: report for stage, report in rows.items() if 'CIDEr' in report}
    if rows:
      lines.append(f'{split:<{width}}  ' + '  '.join(f'{name:>7}' for name in names))
    for stage, report in rows.items():
      lines.append(f'{stage:<{width}}  ' + '  '.join(f'{report[name]:7.4f}' for name in names))
  return '\n'.join(lines)


def _variety(report: Mapping) -> str:
  line = f'{report["videos"]} videos, {report["distinct_captions"]} distinct captions'
  if 'mean_words' in report:  # reports of earlier versions don't tell more
    line += f', {report["mean_words"]:.1f} words each, {report["vocabulary_used"]} different words'
    if 'novel_captions' in report:
      return f'{line}; {report["novel_captions"]:.1%} are no training caption'
    line += '; how many are new is not known: the checkpoint was made before it could tell'
  return line
