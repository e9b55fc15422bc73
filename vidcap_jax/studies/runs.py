"""Reads finished runs: the config file and variant of a workdir, and its scores.

The package ``configs`` is imported by name, in ``_config_file``, and its config files are loaded
from their path: ``configs`` is the user's to change, like the files that ``--config`` names, and
nothing in ``vidcap_jax`` imports it. Only what reads the runs of published tables needs it.
"""

import dataclasses
import importlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax import config_files, variants
from vidcap_jax.config_diff import as_saved, differences
from vidcap_jax.errors import ConfigError, UserError

# Settings that don't change what is trained: where the data is, the seed, devices, logging.
_RUN_SETTINGS = (
  *('source', 'seed', 'seeds', 'data.dir', 'data.threads', 'data.workers', 'data.recipe'),
  *('eval.batch_size', 'eval.splits', 'checkpoint', 'log', 'mesh'),
)
_NEEDED = ('VARIANTS', 'get_config')  # what a config file must define for its runs to be read


@dataclasses.dataclass(frozen=True)
class ConfigVariant:
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
    config: the config file and variant it was started with.
    changed: dotted setting -> (the config's value, the run's value), for settings of the training
      that flags changed.
    seeds: the number of runs that the scores are the mean of.
    scores: split -> metric -> score, as fractions; empty for a run that is not finished.
    data: split -> the data set's name, the number of videos scored, and decoding settings that
      differ from the run's, as ``--mode=evaluate --decode=…`` leaves them.
  """

  workdir: pathlib.Path
  config: ConfigVariant
  changed: Mapping[str, tuple[Any, Any]]
  seeds: int
  scores: Mapping[str, Mapping[str, Score]]
  data: Mapping[str, str]


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
      runs.append(_read(workdir, configs))
    except (ConfigError, OSError, ValueError, KeyError, TypeError) as error:
      reason = str(error) if isinstance(error, UserError) else f'{type(error).__name__}: {error}'
      problems.append(f'{workdir}: {reason}')
  return runs, problems


def _configs(workdir: pathlib.Path) -> list[pathlib.Path]:
  """The saved configs of a workdir: its own, or one for each seed; none if it is no workdir."""
  own = workdir / 'config.json'
  return [own] if own.is_file() else sorted(workdir.glob('seed_*/config.json'))


def _read(workdir: pathlib.Path, configs: Sequence[pathlib.Path]) -> Run:
  saved = json.loads(configs[0].read_text())
  source = saved.get('source')
  if not source:
    raise ConfigError('its config.json does not name the config file it was started with')
  config = config_variant(source)
  path, variant = _config_file(source)
  current = as_saved(config_files.load(path, _NEEDED).get_config(variant))
  changed = {
    key: values
    for key, values in differences(current, saved).items()
    if not any(key == name or key.startswith(f'{name}.') for name in _RUN_SETTINGS)
  }
  reports = {
    path.parent.name: json.loads(path.read_text())
    for path in sorted(configs[0].parent.glob('eval/*/metrics.json'))
  }
  reports = {split: report for split, report in reports.items() if report['references']}
  data = {split: _data_of(report, saved) for split, report in reports.items()}
  if configs[0].parent == workdir:
    scores = {
      split: {k: Score(v) for k, v in report.items() if isinstance(v, float)}
      for split, report in reports.items()
    }
    return Run(workdir, config, changed, 1, scores, data)
  seeds = workdir / 'seeds.json'
  if not seeds.is_file():
    return Run(workdir, config, changed, len(configs), {}, {})
  summary = json.loads(seeds.read_text())
  scores = {
    split: {name: Score(s['mean'], s['stdev']) for name, s in metrics.items()}
    for split, metrics in summary['scores'].items()
  }
  return Run(workdir, config, changed, len(summary['seeds']), scores, data)


def _data_of(report: Mapping[str, Any], saved: Mapping[str, Any]) -> str:
  """What a report scored: see ``Run.data``."""
  run_decode = {**saved['decode'], **saved['stages'].get(report['stage'], {}).get('decode', {})}
  changes = [
    f'{key}={now!r}' for key, now in report.get('decode', {}).items() if now != run_decode.get(key)
  ]
  data = f'{report["data"]["name"]}, {report["videos"]} videos'
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
