"""Checks of a stage's settings that need no data, so that they come before any work is done."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from flax import linen as nn
from ml_collections import ConfigDict

from vidcap_jax import config_keys, models, objectives
from vidcap_jax.decoding.decode import check_decode
from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import programs
from vidcap_jax.evaluation.retrieve import check_metric
from vidcap_jax.inference import rerank
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.training import key_frame_stage, profile
from vidcap_jax.training.optimizer import make_optimizer, make_schedule

NO_SETTINGS = ('vocab_size', 'dtype', 'param_dtype', 'edit')  # fields of models that code sets
_ANY_SIZE = 100  # of the vocabulary, which is not known before there is data

# Ranges of numbers that would otherwise fail late, or silently do something unintended.
_ABOVE_0 = (
  *('train.epochs', 'eval.every_epochs', 'optimizer.schedule.every_epochs'),
  *('train.scheduled_sampling.every_epochs', 'train.scheduled_sampling.eta'),
)
_FROM_0 = (
  *('log.every_steps', 'checkpoint.every_steps', 'eval.patience', 'train.max_skipped'),
  *('data.max_frames', 'data.max_words', 'data.threads', 'data.workers', 'train.first_epoch'),
)
_FROM_1 = (*('train.batch_size', 'eval.batch_size', 'data.captions_per_video', 'checkpoint.keep'),)
_SHARES = ('train.label_smoothing', 'model.dropout')


def check_settings(config: ConfigDict, stage: str) -> None:
  """Checks all settings of a stage as far as that needs neither data nor checkpoints.

  Args:
    config: the stage's own, see ``experiment.stage_config``.
    stage: its name.

  Raises:
    ConfigError: an unknown name or key, or a number out of its range.
  """
  if config.task == 'fuse':
    rerank.check_named(config)
  elif config.task == 'key_frames':
    key_frame_stage.check_named(config, stage)
  else:
    check_types(config)
    check_numbers(config)
    profile.parse_steps(config.log.profile)
    module = models.build(config.model, _ANY_SIZE, config.train.dtype)
    check_training(config, module)
    check_scores(config.eval, module)
  programs.of_config(config.eval)
  check_decode(config.decode)


def check_training(config: ConfigDict, module: nn.Module) -> None:
  """ConfigError for an objective or optimiser that can't train the model."""
  objectives.make_objective(config, module, None)
  make_optimizer(config.optimizer, make_schedule(config.optimizer, 1, 1))


def check_scores(settings: Mapping, module: nn.Module) -> None:
  """ConfigError for an unknown name in ``eval.metrics`` or ``eval.metric``."""
  if not is_captioner(module):
    check_metric(settings)  # eval.metrics is not read: there are no captions
    return
  from vidcap_jax.evaluation.metrics import ALL_METRICS, score_names  # slow to import

  if unknown := [name for name in settings['metrics'] if name not in ALL_METRICS]:
    raise ConfigError(f'eval.metrics: unknown {unknown}; known: {", ".join(ALL_METRICS)}')
  scores = score_names(settings['metrics'])
  if settings['metric'] not in scores:
    raise ConfigError(
      f'eval.metric {settings["metric"]!r} is not among the scores of eval.metrics: '
      + ', '.join(scores)
    )


def check_programs(config: ConfigDict, *, evaluated: bool) -> None:
  """Checks that the programs of ``eval`` are there, if the stage makes captions.

  Args:
    config: the stage's own.
    evaluated: whether the stage's captions are scored at its end.

  Raises:
    MetricError: Java is asked for, and none works.
    ConfigError, DataError: a sentence encoder is needed, and missing or can't be read.
  """
  validates = config.task == 'train'
  if validates and not is_captioner(models.find(config.model.name)[1]):
    return
  from vidcap_jax.evaluation.metrics import evaluated_metrics  # slow to import

  names = {
    *(config.eval.metrics if validates else ()),
    *(evaluated_metrics(config.eval) if evaluated else ()),
  }
  if names:
    programs.of_config(config.eval).require(sorted(names), 'eval.')


def check_types(config: ConfigDict) -> None:
  """ConfigError for a setting of the model or objective of another type than its default."""
  for section in ('model', 'objective'):
    defaults = defaults_of(section, config[section].name)
    config_keys.check_keys(ConfigDict({section: defaults}), {section: config[section]})


def check_numbers(config: ConfigDict) -> None:
  """ConfigError for a number out of its range; keys that a model does not have are skipped."""
  for keys, fits, must in (
    (_ABOVE_0, lambda x: x > 0, 'above 0'),
    (_FROM_0, lambda x: x >= 0, 'at least 0'),
    (_FROM_1, lambda x: x >= 1, 'at least 1'),
    (_SHARES, lambda x: 0 <= x < 1, 'at least 0 and below 1'),
  ):
    for key in keys:
      *sections, name = key.split('.')
      section = functools.reduce(lambda outer, inner: outer[inner], sections, config)
      if name in section and not fits(section[name]):
        raise ConfigError(f'config.{key}={section[name]}: must be {must}')
  annealed = config.train.get('annealed', (0.0, 1.0))
  if len(annealed) != 2 or not 0 <= annealed[0] <= annealed[1] <= 1:
    raise ConfigError(
      f'config.train.annealed={tuple(annealed)}: must be (start, end), two shares from 0 to 1 that '
      'do not fall'
    )


def settings_type(section: str, name: str) -> type:
  """The dataclass of the keys of ``model`` or ``objective``.

  Args:
    section: 'model' or 'objective'.
    name: of a model or objective.

  Raises:
    ConfigError: there is no such model or objective.
  """
  found = objectives.find(name).settings_type if section == 'objective' else models.find(name)[0]
  assert found is not None
  return found


def defaults_of(section: str, name: str) -> dict[str, Any]:
  """Key -> default of all keys of ``settings_type`` that have one; nested ones are dicts."""
  defaults = {}
  for field in dataclasses.fields(settings_type(section, name)):
    value = field.default
    if field.default_factory is not dataclasses.MISSING:
      value = field.default_factory()
    if value is not dataclasses.MISSING and field.name not in NO_SETTINGS:
      nested = dataclasses.is_dataclass(value) and not isinstance(value, type)
      defaults[field.name] = dataclasses.asdict(value) if nested else value
  return defaults
