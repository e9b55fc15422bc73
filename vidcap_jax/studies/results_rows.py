"""Reads runs for the table of results: a row for each stage that makes captions, over its seeds.

A row's seeds are those of ``--config.seeds``, and runs whose settings differ in the seed alone.
Only what a run has on disk is read: config.json, metrics.jsonl, stages.json, goodput.json, the
results of evaluations, and the shapes of the best checkpoint's parameters.
"""

import dataclasses
import json
import os
import pathlib
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, restore
from vidcap_jax.config_diff import differences, with_added_keys
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import results
from vidcap_jax.evaluation.intervals import Interval, seeds_interval
from vidcap_jax.files import read_json
from vidcap_jax.studies import runs
from vidcap_jax.studies.runs import Score
from vidcap_jax.training.experiment import stage_config
from vidcap_jax.training.ledger import NAME as LEDGER
from vidcap_jax.training.metric_log import read_metric_log

# Folders of a run that hold no other runs.
_INSIDE = ('checkpoints', 'data', 'eval', 'tensorboard', 'attention', 'profile', 'key_frames')


@dataclasses.dataclass(frozen=True)
class Timing:
  """How long a stage trained.

  Attributes:
    epochs: trained.
    best_epoch: of the best checkpoint by ``eval.metric``.
    captions_per_second: over all steps.
    step_seconds: of its steps and of waiting for their input.
    run_seconds: of the run with all its stages, compiling and evaluating, without pauses.
  """

  epochs: float | None = None
  best_epoch: float | None = None
  captions_per_second: float | None = None
  step_seconds: float | None = None
  run_seconds: float | None = None


@dataclasses.dataclass(frozen=True)
class Trained:
  """A stage of a workdir.

  Attributes:
    workdir: of the run, or of the seed.
    config: config.json.
    stage: its name.
    finished: whether stages.json lists it.
    data: the name and hash of the data set that it was trained on.
    reports: split -> metrics.json of the stage's own captions.
    best: split -> the scores in metrics.jsonl of the best checkpoint.
    timing: how long it trained.
    parameters: their number; None without a checkpoint.
    hardware: '' of runs that did not record it.
  """

  workdir: pathlib.Path
  config: Mapping[str, Any]
  stage: str
  finished: bool
  data: tuple[str, str]
  reports: Mapping[str, Mapping[str, Any]]
  best: Mapping[str, Mapping[str, float]]
  timing: Timing
  parameters: int | None
  hardware: str

  @property
  def seed(self) -> int:
    """Of the run."""
    return self.config['seed']

  def scores(self, split: str) -> dict[str, float]:
    """The split's scores as fractions: of the evaluation, else of the best validation."""
    report = self.reports.get(split) or self.best.get(split, {})
    return {name: value for name, value in report.items() if isinstance(value, float)}

  def intervals(self, split: str) -> dict[str, Interval]:
    """The 95 % intervals over videos of the split's evaluation; {} of older evaluations."""
    return self.reports.get(split, {}).get('intervals', {})

  def signature(self, split: str) -> str:
    """Of the split's evaluation; '' of older evaluations, and of scores of validation."""
    return self.reports.get(split, {}).get('signature', '')


@dataclasses.dataclass(frozen=True)
class Row:
  """The trained seeds of one recipe.

  Attributes:
    name: the run's folder, below the folder that was searched.
    recipe: the config file's name and variant.
    members: one for each seed.
  """

  name: str
  recipe: str
  members: tuple[Trained, ...]

  @property
  def stage(self) -> str:
    """The stage's name."""
    return self.members[0].stage

  @property
  def made_own_data(self) -> bool:
    """Whether the run rendered the clips that it was trained on."""
    workdir, data = self.members[0].workdir, self.members[0].config['data']['dir']
    run = workdir.parent if workdir.name.startswith('seed_') else workdir
    return not data or run.absolute() in pathlib.Path(data).absolute().parents

  def scored(self, split: str) -> list[Trained]:
    """The members with scores of a split."""
    return [member for member in self.members if 'CIDEr' in member.scores(split)]

  def scores(self, split: str) -> dict[str, Score]:
    """Means over the seeds that have scores of a split; of several, deviations and intervals."""
    every = [member.scores(split) for member in self.scored(split)]
    means = {}
    for name in every[0] if every else ():
      values = [scores[name] for scores in every if name in scores]
      if len(values) == len(every):
        deviation = statistics.stdev(values) if len(values) > 1 else None
        means[name] = Score(statistics.mean(values), deviation, seeds_interval(values))
    return means

  def mean(self, name: str) -> float | None:
    """The mean of a field of ``Timing`` over the seeds that have it."""
    values = [getattr(member.timing, name) for member in self.members]
    known = [value for value in values if value is not None]
    return statistics.mean(known) if known else None


def find(folders: Sequence[str]) -> tuple[list[Row], list[str]]:
  """The rows of all runs in folders, and a line for each run that has none.

  Args:
    folders: workdirs, or folders with workdirs at any depth.

  Raises:
    UserError: no such folder.
  """
  groups: dict[tuple, Row] = {}
  problems = []
  for folder in folders:
    root = pathlib.Path(folder)
    if not root.is_dir():
      raise UserError(f'--runs={folder}: no such folder')
    for workdir in _workdirs(root):
      try:
        trained = read_stages(workdir)
      except runs.UNREADABLE as error:
        reason = runs.reason_of(error)
        problems.append(reason if str(workdir) in reason else f'{workdir}: {reason}')
        continue
      if not trained:
        problems.append(f'{workdir}: no scores of captions yet')
      for member in trained:
        _add(groups, member, _name(root, workdir))
  return list(groups.values()), problems


def _workdirs(root: pathlib.Path) -> list[pathlib.Path]:
  """The folders of runs at and below a folder, in the order of their names."""
  found = []
  for folder, inside, files in os.walk(root):
    inside[:] = sorted(name for name in inside if name not in _INSIDE)
    if 'config.json' in files:
      found.append(pathlib.Path(folder))
      inside.clear()
  return found


def _name(root: pathlib.Path, workdir: pathlib.Path) -> str:
  """A run's name below the folder that was searched; seeds have that of their run."""
  run = workdir.parent if workdir.name.startswith('seed_') else workdir
  if root in run.parents:
    return run.relative_to(root).as_posix()
  return run.absolute().name


def _add(groups: dict[tuple, Row], member: Trained, name: str) -> None:
  """Adds a stage to the row of its recipe that lacks its seed, or as a new row."""
  recipe, repeat = _recipe(member), 0
  while (key := (recipe, repeat)) in groups:
    row = groups[key]
    if member.seed not in [other.seed for other in row.members]:
      groups[key] = dataclasses.replace(row, members=(*row.members, member))
      return
    repeat += 1
  source = member.config.get('source') or ''
  path, colon, variant = source.partition(':')
  groups[key] = Row(name, f'{pathlib.PurePath(path).stem}{colon}{variant}', (member,))


def _recipe(member: Trained) -> str:
  """A text that is the same for runs that differ in the seed alone."""
  settings = differences(with_added_keys(member.config), {})
  kept = {key: value for key, (value, _) in settings.items() if not runs.is_run_setting(key)}
  source = pathlib.PurePath(member.config.get('source') or '').name
  text = json.dumps([source, member.stage, member.data, kept], sort_keys=True)
  return re.sub(r'seed_?\d+', 'seed', text)  # of runs that start from another run's seeds


def read_stages(workdir: pathlib.Path) -> list[Trained]:
  """The stages of a workdir whose captions have scores.

  Raises:
    DataError: a damaged file; or another error of ``runs.UNREADABLE`` for files of another form.
  """
  saved = read_json(workdir / 'config.json')
  if lacking := [key for key in ('data', 'order', 'stages') if key not in saved]:
    raise DataError(f'its config.json is not that of a run: it lacks {", ".join(lacking)}')
  config = ConfigDict(saved)
  records = read_metric_log(workdir)
  finished = restore.finished_stages(epath.Path(workdir))
  goodput = _goodput(workdir / LEDGER)
  trained = []
  for stage in results.scored_stages(config):
    own = stage_config(config, stage)
    metric = own.eval.metric
    reports = _reports(pathlib.Path(results.folder(stage, config, epath.Path(workdir))))
    steps = [record for record in records if record['stage'] == stage]
    best = _best(steps, own.data.val_split, metric)
    member = Trained(
      workdir,
      saved,
      stage,
      stage in finished,
      _data(workdir, stage, reports),
      reports,
      {own.data.val_split: best} if best else {},
      _timing(steps, best, goodput),
      _count_parameters(workdir, stage),
      goodput.get('hardware', ''),
    )
    if any('CIDEr' in member.scores(split) for split in (*reports, own.data.val_split)):
      trained.append(member)
  return trained


def _reports(folder: pathlib.Path) -> dict[str, dict]:
  """Split -> metrics.json of the captions in a stage's folder that were scored with references."""
  reports = {}
  for path in sorted(folder.glob('*/metrics.json')):
    reports[path.parent.name] = report = read_json(path)
    if not isinstance(report, dict):
      raise DataError(f'{path}: damaged, not an object of scores; evaluate the run again')
  return {
    split: report
    for split, report in reports.items()
    if report.get('references') and 'CIDEr' in report and not report.get('ensemble')
    if 'hash' in report.get('data', {})  # absent in reports of the first versions
  }


def _goodput(ledger: pathlib.Path) -> Mapping[str, Any]:
  """A run's goodput.json; {} without one."""
  if not ledger.is_file():
    return {}
  goodput = read_json(ledger)
  if not isinstance(goodput, dict) or not isinstance(goodput.get('seconds', {}), dict):
    raise DataError(
      f'{ledger}: damaged, not the times of a run; delete it to show the scores without times'
    )
  return goodput


def _best(records: Sequence[Mapping], split: str, metric: str) -> Mapping[str, Any]:
  """The validation with the best score, the latest of equal ones; {} without one."""
  validations = [r for r in records if r['kind'] == split and r.get(metric) is not None]
  return max(validations, key=lambda r: (r[metric], r['step']), default={})


def _timing(records: Sequence[Mapping], best: Mapping, goodput: Mapping) -> Timing:
  """The timing of a stage from its records."""
  seconds = goodput.get('seconds')
  run_seconds = sum(seconds.values()) - seconds['stopped'] if seconds else None
  steps = [r for r in records if r['kind'] == 'train' and r.get('seconds')]
  if not steps:
    return Timing(run_seconds=run_seconds)
  step_seconds = sum(record['seconds'] for record in steps)
  captions = sum(record['seconds'] * record['captions_per_second'] for record in steps)
  epochs, last = steps[-1]['epoch'], steps[-1]['step']
  best_epoch = best['step'] * epochs / last if best else None
  return Timing(epochs, best_epoch, captions / step_seconds, step_seconds, run_seconds)


def _data(
  workdir: pathlib.Path, stage: str, reports: Mapping[str, Mapping[str, Any]]
) -> tuple[str, str]:
  """The name and hash of a stage's data set, from an evaluation or else from the checkpoint."""
  path = _best_checkpoint(workdir, stage)
  found = [report['data'] for report in reports.values()]
  found += [checkpoint.read_meta(path)['data']] if path and not found else []
  return (found[0]['name'], found[0]['hash']) if found else ('', '')


def _count_parameters(workdir: pathlib.Path, stage: str) -> int | None:
  path = _best_checkpoint(workdir, stage)
  return checkpoint.count_parameters(path) if path else None


def _best_checkpoint(workdir: pathlib.Path, stage: str) -> epath.Path | None:
  folder = epath.Path(workdir) / 'checkpoints' / stage
  step = checkpoint.best_step(folder)
  return None if step is None else folder / str(step)
