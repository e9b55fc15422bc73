"""Trains a config from Python, with the functions that ``--mode=train`` uses."""

import dataclasses
import functools
import os
import pathlib
import signal
from collections.abc import Mapping
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax import config_files, config_keys
from vidcap_jax.api.keywords import named_in_errors
from vidcap_jax.api.sources import PathLike
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import runtime
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.studies import run_pictures
from vidcap_jax.training import experiment, section_defaults
from vidcap_jax.training.recipe import Recipe
from vidcap_jax.training.train import Preempted


@dataclasses.dataclass(frozen=True)
class Run:
  """A finished run.

  Attributes:
    workdir: the folder of checkpoints, logs and results; ``load`` takes it.
    scores: split -> metric -> score of the last stage; of a run of several seeds their means.
    metric: the metric that chose the best checkpoint.
    score: the best validation score by this metric of the last stage that was validated; None if
      there is none.

  Example:
    >>> import vidcap_jax as vc
    >>> run = vc.train('my_config.py', 'runs/mine')
    stage 1 of 1: xe, cross entropy
    [xe] finished before...
    >>> run.workdir, run.metric
    (PosixPath('runs/mine'), 'CIDEr')
  """

  workdir: pathlib.Path
  scores: Mapping[str, Mapping[str, Any]]
  metric: str
  score: float | None

  def __repr__(self) -> str:
    score = 'no score' if self.score is None else f'best {self.metric} {self.score:.4f}'
    return f'Run({str(self.workdir)!r}, {score})'


@named_in_errors()
def train(config: PathLike | ConfigDict, workdir: PathLike, **overrides: Any) -> Run:
  """Trains all stages of a config and scores them; the same call resumes a run that was stopped.

  Args:
    config: a config file, ``FILE`` or ``FILE:VARIANT``, or a config of ``get_config``.
    workdir: folder of checkpoints, logs and results.
    **overrides: values by dotted key, ``**{'optimizer.learning_rate': 1e-3}``.

  Returns:
    The finished run.

  Raises:
    UserError: no such config, an unknown key or a value of another type; data and config that
      don't fit together; a workdir of another config, or in which another process trains.
    KeyboardInterrupt: it was stopped by Ctrl-C, and a checkpoint was saved.

  Example:
    >>> import vidcap_jax as vc
    >>> run = vc.train('my_config.py', 'runs/new', **{'log.every_steps': 2})
    stage 1 of 1: xe, cross entropy...
    >>> captioner = vc.load(run.workdir)
  """
  if not os.fspath(workdir):
    raise UserError('workdir: an empty path, which would be the current folder; name it')
  if isinstance(config, ConfigDict):
    chosen, source = config.copy_and_resolve_references(), ''
  else:
    source = os.fspath(config)
    chosen = config_files.load_config(source)
  override(chosen, overrides)
  try:
    return run(chosen, epath.Path(workdir), source)
  except Preempted as stopped:
    if stopped.signal == signal.SIGINT:
      raise KeyboardInterrupt(str(stopped)) from None
    raise


def override(config: ConfigDict, overrides: Mapping[str, Any]) -> None:
  """Changes values of a config by dotted key.

  Raises:
    ConfigError: an unknown key, with those like it, or a value of another type.
  """
  section_defaults.add(config, overrides)
  for key, value in overrides.items():
    *sections, name = key.split('.')
    inner: Any = config
    for section in sections:
      inner = inner[section] if isinstance(inner, ConfigDict) and section in inner else None
    if not isinstance(inner, ConfigDict) or name not in inner:
      raise ConfigError(config_keys.unknown_key(f'config.{key}', key, _known(config, overrides)))
    given = os.fspath(value) if isinstance(value, os.PathLike) else value
    try:
      with config.unlocked():
        inner[name] = given
    except TypeError:
      kind = config_keys.type_text(type(inner[name]).__name__)
      raise ConfigError(f'config.{key}: must be {kind}, not {value!r}') from None


def _known(config: ConfigDict, overrides: Mapping[str, Any]) -> list[str]:
  """All keys of a config, with those of its models and objectives that it leaves out."""
  known = list(config_keys.all_keys(config))
  for section, defaults in section_defaults.of_sections(config, overrides).items():
    known += [key for key in config_keys.all_keys(defaults, f'{section}.') if key not in known]
  return known


def run(config: ConfigDict, workdir: epath.Path, source: str, began: float | None = None) -> Run:
  """Runs a config on all devices and draws pictures of the run.

  Args:
    config: see ``configs/common.py``.
    workdir: of the run.
    source: the config file, for config.json.
    began: when the process began, for goodput.json: seconds since the epoch; None: now.

  Raises:
    UserError: as for ``train``.
    Preempted: SIGTERM or Ctrl-C came, and a checkpoint was saved.
  """
  with config.unlocked():
    config.source = source
  with runtime.applied(config.runtime):
    mesh = make_mesh(config.mesh.data, config.mesh.model)
    scores = experiment.run(config, workdir, mesh, recipe_of(config), began)
    run_pictures.draw(config, workdir, functools.partial(print, flush=True))
  finished = restore.finished_stages(workdir).values()
  best = [entry['best_score'] for entry in finished if entry.get('best_score') is not None]
  score = best[-1] if best else None
  return Run(pathlib.Path(workdir), scores, config.eval.metric, score)


def recipe_of(config: ConfigDict) -> Recipe | None:
  """The module that renders clips for a config without a data set; needs the extra ``video``."""
  if config.data.dir or not config.data.recipe.videos:
    return None
  from data_prep.synthetic import clips

  return clips
