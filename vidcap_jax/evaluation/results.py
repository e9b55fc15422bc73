"""Results of evaluation: the folders they are written to, and their text for people."""

import importlib.metadata
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.counts import counted
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import embedding_score, retrieval
from vidcap_jax.files import absolute, read_json

if TYPE_CHECKING:
  from vidcap_jax.evaluation.metrics import References

CAPTION_TASKS = ('train', 'fuse')  # the tasks of stages that make captions, or rank them


def scored_stages(config: ConfigDict) -> list[str]:
  """The stages of a config that make captions or rank them, in the order they run."""
  task = config.get('task', 'train')
  return [name for name in config.order if config.stages[name].get('task', task) in CAPTION_TASKS]


def folder(stage: str, config: ConfigDict, workdir: epath.Path) -> epath.Path:
  """The folder of a stage's results, by split; the last scored stage's results are the run's."""
  last = stage == scored_stages(config)[-1]
  return workdir / 'eval' if last else workdir / 'eval' / stage


def folder_of(restored: Restored) -> epath.Path:
  """``folder`` for a checkpoint in the workdir of its run.

  Raises:
    UserError: the checkpoint is not in a workdir.
  """
  stage, path = restored.meta['stage'], absolute(restored.path)  # WORKDIR/checkpoints/STAGE/STEP
  checkpoints = path.parent.parent
  if checkpoints.name != 'checkpoints':
    raise UserError(
      f'{path} is not in WORKDIR/checkpoints/{stage}, so its results have no default folder; '
      'give one with --output=DIR'
    )
  saved = checkpoints.parent / 'config.json'  # the run may have got further stages since then
  config = ConfigDict(read_json(saved)) if saved.is_file() else restored.config
  return folder(stage, config, checkpoints.parent)


def how_to_score(captions: epath.Path, references: str, split: str, prepared: 'References') -> str:
  """The command that scores a file of captions.

  Args:
    captions: the file.
    references: the data set.
    split: of the data set.
    prepared: the references as an evaluation has tokenised them.
  """
  command = ['python', '-m', 'vidcap_jax.evaluation.metrics', f'--hypotheses={captions}']
  command += [f'--references={references}', f'--split={split}']
  command += ['--by_character'] if prepared.by_character else []
  chosen = prepared.programs.chosen()
  chosen.pop('embedding_model', None)  # read for metrics that the command does not have
  command += [f'--{key}={value}' for key, value in chosen.items()]
  return (
    f'the captions are in {captions}; score them with the following command, and '
    '--meteor_time_limit=SECONDS for more time or --metrics=BLEU,ROUGE_L,CIDEr without METEOR:\n'
    f'  {shlex.join(command)}'
  )


def versions() -> dict[str, str]:
  """The versions of the packages that results depend on."""
  names = ('vidcap_jax', 'jax', 'flax', 'optax', 'orbax-checkpoint', 'grain', 'pycocoevalcap')
  installed = {}
  for name in names:
    try:
      installed[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # run from a checkout, not installed
      installed[name] = 'not installed'
  return installed


def summary(report: Mapping) -> str:
  """A report's scores in a few lines."""
  if report.get('captions'):
    counts = f'{counted(report["videos"], "video")}, {counted(report["captions"], "caption")}'
    lines = [counts, retrieval.summary(report)]
    return '\n'.join(lines + _signature(report))
  if 'captions' in report:
    return f'{counted(report["videos"], "video")}, no captions to retrieve'
  lines = []
  if report['references']:
    names = (
      *(f'BLEU_{n}' for n in range(1, 5)),
      *('METEOR', 'ROUGE_L', 'CIDEr', *embedding_score.SCORES, 'constant_CIDEr'),
    )
    lines.append('  '.join(f'{name} {report[name]:.4f}' for name in names if name in report))
    if 'oracle_CIDEr' in report:
      lines.append(
        f'up to {counted(report["candidates"], "candidate")} a video: the best of each gives CIDEr '
        f'{report["oracle_CIDEr"]:.4f}, a random one {report["random_CIDEr"]:.4f}'
      )
    if ends := report.get('intervals'):
      shown = (
        f'{name} {ends[name][0]:.4f} to {ends[name][1]:.4f}' for name in names if name in ends
      )
      lines.append(f'95 % intervals over videos: {"  ".join(shown)}')
    lines += _signature(report)
  else:
    lines.append('no references to score the captions with')
  lines.append(_diversity(report))
  if 'key_frames' in report:
    lines.append(report['key_frames'])
  if filled := report.get('fallback'):
    lines.append(f'{filled["videos"]} of them filled in from {filled["checkpoint"]}')
    if unseen := filled['without_features_of_either']:
      lines[-1] += f'; {counted(unseen, "video")} without the features of both'
  return '\n'.join(lines)


def _signature(report: Mapping) -> list[str]:
  """The line of the signature; none in reports of earlier versions."""
  return [f'signature: {report["signature"]}'] if 'signature' in report else []


def stage_table(reports: Mapping[str, Mapping[str, Mapping]]) -> str:
  """The scores of several stages' captions, a table for each split.

  Args:
    reports: stage -> split -> the contents of metrics.json; stages without captions are left out.
  """
  names = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr')
  width = max(map(len, reports))
  lines = []
  for split in dict.fromkeys(split for by_split in reports.values() for split in by_split):
    rows = {stage: by_split.get(split, {}) for stage, by_split in reports.items()}
    rows = {stage: report for stage, report in rows.items() if 'CIDEr' in report}
    if rows:
      lines.append(f'{split:<{width}}  ' + '  '.join(f'{name:>7}' for name in names))
    for stage, report in rows.items():
      lines.append(f'{stage:<{width}}  ' + '  '.join(f'{report[name]:7.4f}' for name in names))
  return '\n'.join(lines)


def _diversity(report: Mapping) -> str:
  """How varied the captions are, in a line."""
  line = f'{report["videos"]} videos, {report["distinct_captions"]} distinct captions'
  if 'mean_words' in report:  # absent in reports of earlier versions
    line += f', {report["mean_words"]:.1f} words each, {report["vocabulary_used"]} different words'
    if 'novel_captions' in report:
      return f'{line}; {report["novel_captions"]:.1%} are not in the training captions'
    line += (
      '; how many are new is unknown: the checkpoint is too old to hold training captions, or was '
      'imported'
    )
  return line
