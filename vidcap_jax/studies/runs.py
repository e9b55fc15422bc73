"""Reads finished runs: the config file and variant of a workdir, and its scores.

A workdir counts once for its own variant, and once for each other variant of its config file whose
stages are all among its own: a late fusion also trains the branches that it chooses between.

The package ``configs`` is imported by name, in ``_config_file``, and its config files are loaded
from their path: ``configs`` is the user's to change, like the files that ``--config`` names, and
nothing in ``vidcap_jax`` imports it. Only what reads the runs of published tables needs it.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import pathlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ml_collections import ConfigDict

from vidcap_jax import config_files, variants
from vidcap_jax.config_diff import ABSENT, as_saved, differences, with_added_keys
from vidcap_jax.counts import counted
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.evaluation import results
from vidcap_jax.evaluation.intervals import Interval
from vidcap_jax.files import read_json

# Settings that don't change what is trained: where the data is, the seed, devices, logging.
RUN_SETTINGS = (
  *('source', 'seed', 'seeds', 'data.dir', 'data.threads', 'data.workers', 'data.recipe'),
  *('eval.batch_size', 'eval.splits', 'checkpoint', 'log', 'mesh'),
)
UNREADABLE = (ConfigError, OSError, ValueError, KeyError, TypeError, IndexError)
_NEEDED = ('VARIANTS', 'get_config')  # what a config file must define for its runs to be read


@dataclasses.dataclass(frozen=True)
class ConfigVariant:
  """A config file's name, without folders, and a value for each part of its variant."""

  file: str
  variant: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Score:
  """A metric of a split; over several seeds the mean, with their standard deviation.

  ``interval`` is the 95 % interval of the mean over seeds, where it is computed.
  """

  value: float
  deviation: float | None = None
  interval: Interval | None = None


@dataclasses.dataclass(frozen=True)
class Run:
  """Scores of a workdir, or of an ensemble, whose config file and variant are known.

  Attributes:
    workdir: the folder; of an ensemble the folder of its evaluation.
    config: the config file and variant that the scores are of.
    changed: dotted setting -> (the config's value, the run's value), for settings of the training
      that flags changed.
    seeds: the number of runs that the scores are the mean of.
    scores: split -> metric -> score, as fractions; empty for a run that is not finished.
    data: split -> the data set's name, the number of videos scored, and decoding settings that
      differ from the run's, as ``--mode=evaluate --decode=…`` leaves them.
    stage: whose scores these are, if it is not the last one of the run; else ''.
    models: the number of checkpoints that make the captions together.
    folders: the workdirs of the seeds; without seeds the workdir.
    signatures: split -> the signature of its scores, of the first seed; without those of results of
      earlier versions.
  """

  workdir: pathlib.Path
  config: ConfigVariant
  changed: Mapping[str, tuple[Any, Any]]
  seeds: int
  scores: Mapping[str, Mapping[str, Score]]
  data: Mapping[str, str]
  stage: str = ''
  models: int = 1
  folders: tuple[pathlib.Path, ...] = ()
  signatures: Mapping[str, str] = dataclasses.field(default_factory=dict)


def config_variant(source: str) -> ConfigVariant:
  """What a ``--config`` string names, with defaults filled in, so that equal configs are equal.

  Raises:
    ConfigError: no file of that name in ``configs``, or a variant that it does not know.
  """
  path, variant = _config_file(source)
  known = config_files.load(path, _NEEDED).VARIANTS
  return ConfigVariant(path.name, variants.read_variant(variant, **known))


def find(folder: str) -> tuple[list[Run], list[str]]:
  """The runs in a folder of workdirs, by name, and a line for each workdir that can't be read.

  Args:
    folder: of workdirs; or a workdir.

  Raises:
    UserError: no such folder.
  """
  root = pathlib.Path(folder)
  if not root.is_dir():
    raise UserError(f'--runs={folder}: no such folder')
  runs, problems = [], []
  for workdir in [root] if _configs(root) else sorted(root.iterdir()):
    if not (configs := _configs(workdir)):
      continue
    try:
      runs += _read(workdir, configs)
    except UNREADABLE as error:
      problems.append(f'{workdir}: {reason_of(error)}')
  for path in _reports(root):
    try:
      report = json.loads(path.read_text())
      if isinstance(report, dict) and report.get('ensemble'):
        runs.append(_ensemble(path.parent, report))
    except UNREADABLE as error:
      problems.append(f'{path}: {reason_of(error)}')
  return runs, problems


def reason_of(error: Exception) -> str:
  if isinstance(error, UserError | OSError):
    return str(error)
  return f'its files are damaged or incomplete ({error})'


def _reports(root: pathlib.Path) -> Iterator[pathlib.Path]:
  """Every metrics.json below a folder; folders of checkpoints and data, which are large, aside."""
  for folder, inside, files in os.walk(root):
    inside[:] = sorted(name for name in inside if name not in ('checkpoints', 'data'))
    if 'metrics.json' in files:
      yield pathlib.Path(folder, 'metrics.json')


def _configs(workdir: pathlib.Path) -> list[pathlib.Path]:
  """The saved configs of a workdir: its own, or one for each seed; none if it is no workdir."""
  own = workdir / 'config.json'
  return [own] if own.is_file() else sorted(workdir.glob('seed_*/config.json'))


def _read(workdir: pathlib.Path, configs: Sequence[pathlib.Path]) -> list[Run]:
  """A workdir's run, then the stages of it that other variants train."""
  saved = read_json(configs[0])
  path, variant = source_of(saved)
  file = config_files.load(path, _NEEDED)
  current = file.get_config(variant)
  config = ConfigVariant(path.name, variants.read_variant(variant, **file.VARIANTS))
  folders = tuple(path.parent for path in configs)
  own = Run(
    workdir, config, changed_settings(current, saved), len(configs), {}, {}, folders=folders
  )
  runs = [_with_scores(own, saved, '')]
  for other, single in _other_variants(file, config.variant):
    if not _contains(current, single):
      continue
    config = ConfigVariant(path.name, other)
    branch = dataclasses.replace(own, config=config, changed=changed_settings(single, saved))
    branch = _with_scores(branch, saved, results.scored_stages(single)[-1])
    runs += [branch] if branch.scores else []
  return runs


def _other_variants(
  file: ModuleType, own: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], ConfigDict]]:
  """The other values of the part ``variant``, with the config of each."""
  for value in file.VARIANTS.get('variant', ()):
    chosen = {**own, 'variant': value}
    parts = [f'{name}={part}' for name, part in chosen.items() if name in file.VARIANTS]
    if chosen == own:
      continue
    with contextlib.suppress(ConfigError):  # some parts exclude each other
      yield chosen, file.get_config(','.join([*parts, *filter(None, [own['runlocal']])]))


def source_of(saved: Mapping[str, Any]) -> tuple[pathlib.Path, str]:
  """The config file and variant that a saved config names.

  Raises:
    ConfigError: it names none, or one that does not exist.
  """
  if not saved.get('source'):
    raise ConfigError('its config.json does not name the config file it was started with')
  return _config_file(saved['source'])


def changed_settings(current: ConfigDict, saved: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
  """The settings of a config that a run changed; its further stages don't count.

  Settings that the run does not have were added after it was begun: no flag has changed them.
  """
  changes = _differences(current, saved)
  return {key: values for key, values in changes.items() if values[1] != ABSENT}


def _differences(current: ConfigDict, saved: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
  """The settings of a config that a run has other values of, without its further stages."""
  order = [name for name in saved['order'] if name in current.order]
  stages = {name: changes for name, changes in saved['stages'].items() if name in current.stages}
  saved = with_added_keys({**saved, 'order': order, 'stages': stages})
  changes = differences(with_added_keys(as_saved(current)), saved)
  return {key: values for key, values in changes.items() if not is_run_setting(key)}


def is_run_setting(key: str) -> bool:
  """Whether a dotted setting changes where and how a run runs, but not what is trained."""
  return any(key == name or key.startswith(f'{name}.') for name in RUN_SETTINGS)


def _contains(run: ConfigDict, single: ConfigDict) -> bool:
  """Whether a run's stages include all those of another config, with the same settings."""
  return {*single.order} <= {*run.order} and not _differences(single, as_saved(run))


def _with_scores(run: Run, saved: Mapping[str, Any], stage: str) -> Run:
  """The run with the scores of a stage, '' for its last one; see ``results.folder``."""
  stage = '' if stage in results.scored_stages(ConfigDict(saved))[-1:] else stage
  by_seed = [_stage_reports(folder, stage) for folder in run.folders]
  run = dataclasses.replace(run, stage=stage, signatures=_signatures(by_seed[0]))
  data = {split: _data_of(report, saved) for split, report in by_seed[0].items()}
  if run.folders == (run.workdir,):
    return dataclasses.replace(run, scores=_single_scores(by_seed[0]), data=data)
  summary = run.workdir / 'seeds.json'
  if not summary.is_file():  # not all seeds have finished
    return run
  seeds = json.loads(summary.read_text())
  if stage:
    scores = _mean_scores(by_seed)
  else:
    scores = {
      split: {name: Score(s['mean'], s['stdev']) for name, s in metrics.items()}
      for split, metrics in seeds['scores'].items()
    }
  return dataclasses.replace(run, seeds=len(seeds['seeds']), scores=scores, data=data)


def _stage_reports(folder: pathlib.Path, stage: str) -> dict[str, dict]:
  """Split -> metrics.json of the stage's own captions that were scored with references."""
  paths = sorted((folder / 'eval' / stage).glob('*/metrics.json'))
  reports = {path.parent.name: json.loads(path.read_text()) for path in paths}
  return {
    split: report
    for split, report in reports.items()
    if report['references'] and not report.get('ensemble')
  }


def _single_scores(reports: Mapping[str, Mapping]) -> dict[str, dict[str, Score]]:
  return {
    split: {name: Score(value) for name, value in report.items() if isinstance(value, float)}
    for split, report in reports.items()
  }


def _mean_scores(by_seed: Sequence[Mapping[str, Mapping]]) -> dict[str, dict[str, Score]]:
  """Means and deviations over seeds, of the splits and metrics that all seeds have."""
  scores: dict[str, dict[str, Score]] = {}
  for split in set.intersection(*({*reports} for reports in by_seed)):
    reports = [seed[split] for seed in by_seed]
    scores[split] = {}
    for name in reports[0]:
      values = [report[name] for report in reports if isinstance(report.get(name), float)]
      if len(values) == len(reports):
        deviation = statistics.stdev(values) if len(values) > 1 else 0.0
        scores[split][name] = Score(statistics.mean(values), deviation)
  return scores


def _ensemble(folder: pathlib.Path, report: Mapping[str, Any]) -> Run:
  """An evaluation of several checkpoints together.

  Raises:
    ConfigError: they were trained by different configs, or one is not in its workdir any more.
  """
  configs = []
  for name in report['ensemble']['checkpoints']:
    path = pathlib.Path(name).parents[2] / 'config.json'  # WORKDIR/checkpoints/STAGE/STEP
    if not path.is_file():
      raise ConfigError(f'the config of its checkpoint {name} is not there: {path}')
    configs.append(json.loads(path.read_text()))
  sources = [source_of(saved) for saved in configs]
  different = {str(config_variant(f'{path}:{variant}')): None for path, variant in sources}
  if len(different) > 1:
    raise ConfigError(f'an ensemble of different configs belongs to no row: {list(different)}')
  path, variant = sources[0]
  current = config_files.load(path, _NEEDED).get_config(variant)
  changed: dict[str, tuple[Any, Any]] = {}
  for saved in configs:
    changed |= changed_settings(current, saved)
  reports = {report['split']: report} if report['references'] else {}
  data = {split: _data_of(report, configs[0]) for split in reports}
  config = config_variant(f'{path}:{variant}')
  models = len(configs)
  signatures = _signatures(reports)
  return Run(
    folder,
    config,
    changed,
    1,
    _single_scores(reports),
    data,
    models=models,
    signatures=signatures,
  )


def _signatures(reports: Mapping[str, Mapping]) -> dict[str, str]:
  return {split: report['signature'] for split, report in reports.items() if 'signature' in report}


def _data_of(report: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
  """What a report scored: see ``Run.data``."""
  run_decode = {**saved['decode'], **saved['stages'].get(report['stage'], {}).get('decode', {})}
  changes = [
    f'{key}={now!r}' for key, now in report.get('decode', {}).items() if now != run_decode.get(key)
  ]
  data = f'{report["data"]["name"]}, {counted(report["videos"], "video")}'
  return f'{data}; decoded with {", ".join(changes)}' if changes else data


def _config_file(source: str) -> tuple[pathlib.Path, str]:
  """The file in the package ``configs``, under its current name, and the variant."""
  path, _, variant = source.partition(':')
  package = str(importlib.import_module('configs').__file__)
  file = pathlib.Path(package).with_name(pathlib.PurePath(path).name)
  if not file.is_file():
    raise ConfigError(f'there is no config file configs/{file.name}')
  current, _, variant = config_files.current_source(f'{file}:{variant}').partition(':')
  return pathlib.Path(current), variant
