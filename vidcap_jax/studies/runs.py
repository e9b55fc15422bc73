"""Finished runs, read back: which config file and variant made a workdir, and what it scored."""

import dataclasses
import importlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax import config_files, variants
from vidcap_jax.config_diff import as_saved, differing
from vidcap_jax.errors import ConfigError, UserError

# Settings that say where and how a run went, not what it trained.
_CIRCUMSTANCES = (
  *('source', 'seed', 'seeds', 'data.dir', 'data.threads', 'data.workers', 'data.recipe'),
  *('eval.batch_size', 'eval.splits', 'checkpoint', 'log', 'mesh'),
)
_NEEDED = ('VARIANTS', 'get_config')  # what a config file defines for these runs to be read


@dataclasses.dataclass(frozen=True)
class Made:
  """A config file's name, without folders, and a value for each part of its variant."""

  file: str
  variant: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Score:
  """A metric of a split; over several seeds the mean, with their standard deviation."""

  value: float
  deviation: float | None = None


@dataclasses.dataclass(frozen=True)
class Run:
  """A workdir whose config file and variant are known.

  Attributes:
    workdir: the folder.
    made: by which config.
    changed: dotted setting -> (the config's value, the run's) where flags changed what is trained.
    seeds: how many runs the scores are of.
    scores: split -> metric -> score, as fractions; empty for a run that is not finished.
    data: split -> the data set's name, how many videos were scored, and how the decoding differed
      from the run's own, as `--mode=evaluate --decode=…` may leave it.
  """

  workdir: pathlib.Path
  made: Made
  changed: Mapping[str, tuple[Any, Any]]
  seeds: int
  scores: Mapping[str, Mapping[str, Score]]
  data: Mapping[str, str]


def made_by(source: str) -> Made:
  """What a ``--config`` string asks for, with defaults filled in, so that equal runs are equal.

  Raises:
    ConfigError: no file of that name in ``configs``, or a variant that it does not know.
  """
  path, variant = _config_file(source)
  known = config_files.load(path, _NEEDED).VARIANTS
  return Made(path.name, variants.read_variant(variant, **known))


def find(folder: str) -> tuple[list[Run], list[str]]:
  """The runs in a folder of workdirs, by name, and a line for each that can't be told.

  Args:
    folder: holds the workdirs; or is one itself.

  Raises:
    UserError: no such folder.
  """
  root = pathlib.Path(folder)
  if not root.is_dir():
    raise UserError(f'--runs={folder}: no such folder')
  found, problems = [], []
  for workdir in [root] if _configs(root) else sorted(root.iterdir()):
    if not (configs := _configs(workdir)):
      continue
    try:
      found.append(_read(workdir, configs))
    except (ConfigError, OSError, ValueError, KeyError, TypeError) as error:
      reason = str(error) if isinstance(error, UserError) else f'{type(error).__name__}: {error}'
      problems.append(f'{workdir}: {reason}')
  return found, problems


def _configs(workdir: pathlib.Path) -> list[pathlib.Path]:
  """The saved configs of a workdir: its own, or one for each seed; none if it is no workdir."""
  own = workdir / 'config.json'
  return [own] if own.is_file() else sorted(workdir.glob('seed_*/config.json'))


def _read(workdir: pathlib.Path, configs: Sequence[pathlib.Path]) -> Run:
  saved = json.loads(configs[0].read_text())
  source = saved.get('source')
  if not source:
    raise ConfigError('its config.json does not say which config file made it')
  made = made_by(source)
  path, variant = _config_file(source)
  ours = as_saved(config_files.load(path, _NEEDED).get_config(variant))
  changed = {
    key: values
    for key, values in differing(ours, saved).items()
    if not any(key == name or key.startswith(f'{name}.') for name in _CIRCUMSTANCES)
  }
  reports = {
    path.parent.name: json.loads(path.read_text())
    for path in sorted(configs[0].parent.glob('eval/*/metrics.json'))
  }
  reports = {split: report for split, report in reports.items() if report['references']}
  data = {split: _scored(report, saved) for split, report in reports.items()}
  if configs[0].parent == workdir:
    scores = {
      split: {k: Score(v) for k, v in report.items() if isinstance(v, float)}
      for split, report in reports.items()
    }
    return Run(workdir, made, changed, 1, scores, data)
  seeds = workdir / 'seeds.json'
  if not seeds.is_file():
    return Run(workdir, made, changed, len(configs), {}, {})
  summary = json.loads(seeds.read_text())
  scores = {
    split: {name: Score(s['mean'], s['stdev']) for name, s in metrics.items()}
    for split, metrics in summary['scores'].items()
  }
  return Run(workdir, made, changed, len(summary['seeds']), scores, data)


def _scored(report: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
  """What a report is of: see ``Run.data``."""
  own = {**saved['decode'], **saved['stages'].get(report['stage'], {}).get('decode', {})}
  changes = [
    f'{key}={now!r}' for key, now in report.get('decode', {}).items() if now != own.get(key)
  ]
  about = f'{report["data"]["name"]}, {report["videos"]} videos'
  return f'{about}; decoded with {", ".join(changes)}' if changes else about


def _config_file(source: str) -> tuple[pathlib.Path, str]:
  """The file of the package ``configs``, under its name of today, and the variant."""
  path, _, variant = source.partition(':')
  package = str(importlib.import_module('configs').__file__)
  file = pathlib.Path(package).with_name(pathlib.PurePath(path).name)
  if not file.is_file():
    raise ConfigError(f'there is no config file configs/{file.name}')
  current, _, variant = config_files.current_source(f'{file}:{variant}').partition(':')
  return pathlib.Path(current), variant
