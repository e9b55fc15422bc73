"""The config that a workdir keeps, what may differ when a run is resumed, and how a run may grow.

A run may get further stages, after those that it has begun, and its last stage further epochs. Both
are allowed only where the result is that of a run with them from the start, bit for bit.
"""

from collections.abc import Mapping
from typing import Any

from etils import epath
from ml_collections import ConfigDict

from vidcap_jax import config_diff, models
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed.mesh import is_main, wait_for_all
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import results
from vidcap_jax.files import is_local, read_json, wait_for, write_json

# Settings that may change when a run is resumed, as they change no result.
RESUMABLE_OVERRIDES = (
  *('source', 'mesh.', 'data.cache', 'data.threads', 'data.workers', 'log.', 'checkpoint.'),
  *('eval.splits', 'runtime.check_nans', 'runtime.compilation_cache'),
  *('eval.tokenizer', 'eval.meteor', 'eval.scorers', 'eval.embedding_model'),
)
# Schedules whose rate at a step does not depend on the number of epochs.
_OPEN_SCHEDULES = ('constant', 'step')
_ANY_SIZE = 10  # of the vocabulary, to build a model's config


def check_config(config: ConfigDict, workdir: epath.Path) -> ConfigDict:
  """Saves the config in a workdir without checkpoints; compares it with the saved one in others.

  Returns:
    The config to run: of a workdir that an earlier version began, see ``config_diff.as_begun``.

  Raises:
    DataError: they differ in more than a run may grow by; every such key is listed.
    UserError: on this machine the workdir is another folder than process 0's.
  """
  path = workdir / 'config.json'
  current_config = config_diff.as_saved(config)
  started = path.is_file() and any((workdir / 'checkpoints').glob('*/*'))
  wait_for_all('config')  # every process has checked this before one writes
  if not started and is_main():  # before the first checkpoint, settings may be corrected
    write_json(path, current_config)
  wait_for_all('config written')
  wait_for(path)
  if not started:
    return config
  saved_config = read_json(path)
  config, replaced = config_diff.as_begun(config, saved_config)
  if replaced:
    _log(
      f'{workdir} was begun by an earlier version and goes on as it has begun, without the changes '
      f'since then of: {", ".join(replaced)}'
    )
  growth = _Growth(saved_config, config_diff.as_saved(config), workdir)
  if refused := growth.refused():
    raise DataError(
      f'{workdir} was made with another config; '
      'use the same settings, or another --workdir, with '
      f'--config.train.init_from={workdir} to go on from its parameters:\n' + '\n'.join(refused)
    )
  if growth.changed:
    wait_for_all('config compared')  # every process has read the files before one writes them
    if is_main():
      growth.save()
    wait_for_all('config changed')
  return config


class _Growth:
  """The difference between the config of a run that has begun and the one that it goes on with.

  Args:
    saved: the run's config.json.
    current: the config that it goes on with, as from ``config_diff.as_saved``.
    workdir: of the run.

  Attributes:
    changed: dotted key -> both values, of all that may change a result.
  """

  def __init__(self, saved: Mapping, current: Mapping, workdir: epath.Path):
    self._saved, self._current, self._workdir = saved, current, workdir
    changed = config_diff.differences(saved, current)
    self.changed = {k: v for k, v in changed.items() if not k.startswith(RESUMABLE_OVERRIDES)}
    self._finished = restore.finished_stages(workdir)
    self._begun = [
      name
      for name in saved['order']
      if name in self._finished or any((workdir / 'checkpoints' / name).glob('*'))
    ]
    self._longer = [
      name for name in self._begun if name in current['stages'] and self._epochs_change(name)
    ]

  def refused(self) -> list[str]:
    """A line for each key that may not change, with both values."""
    lines = []
    for key, (before, now) in self.changed.items():
      reason = self._refusal(key)
      if reason is not None:
        why = f' ({reason})' if reason else ''
        lines.append(f'  config.{key}: {before!r} in the workdir, {now!r} now{why}')
    return lines

  def _refusal(self, key: str) -> str | None:
    """Why a key may not change, '' without a reason of its own; None if it may."""
    if key == 'order':
      same = list(self._current['order'])[: len(self._begun)] == self._begun
      return None if same else f'must begin with {", ".join(self._begun)}, which have begun'
    section, _, rest = key.partition('.')
    stage, _, own_key = rest.partition('.') if section == 'stages' else ('', '', key)
    if stage and stage not in self._begun:
      return None
    if own_key != 'train.epochs':
      return ''
    reasons = (self._epochs_refusal(name) for name in self._longer if stage in ('', name))
    return next(filter(None, reasons), None)

  def _epochs_change(self, stage: str) -> bool:
    before, now = (_setting(c, stage, 'train.epochs') for c in (self._saved, self._current))
    return before != now

  def _epochs_refusal(self, stage: str) -> str:
    """Why the epochs of a stage that has begun may not change; '' if they may."""
    before, now = (_setting(c, stage, 'train.epochs') for c in (self._saved, self._current))
    schedule = _setting(self._saved, stage, 'optimizer.schedule.name')
    if stage != self._begun[-1]:
      return f'stage {self._begun[-1]!r} has begun after stage {stage!r}'
    if now < before:
      return f'stage {stage!r} may get more epochs, not fewer'
    if schedule not in _OPEN_SCHEDULES:
      return (
        f'the learning rate of stage {stage!r} falls over all its epochs, by '
        f'optimizer.schedule.name={schedule!r}: with more epochs each step would have another one'
      )
    if _anneals(self._saved, stage):
      return (
        f'model settings of stage {stage!r} are annealed over all its epochs, by train.annealed'
      )
    if stage in self._finished:
      return self._last_validation_refusal(stage, before)
    return ''

  def _last_validation_refusal(self, stage: str, epochs: float) -> str:
    """Why a longer stage would not be validated where this one ended; '' if it would."""
    every = _setting(self._saved, stage, 'eval.every_epochs')
    steps = self._finished[stage]['steps']
    if epochs != int(epochs):
      return f'stage {stage!r} has ended within an epoch'
    eval_steps = max(1, round(every * steps / epochs))
    if steps % eval_steps == 0:
      return ''
    return (
      f'stage {stage!r} was validated at its end, after {steps} steps, and with more epochs would '
      f'not have been: eval.every_epochs={every:g} is every {eval_steps} steps'
    )

  def save(self) -> None:
    """Changes the files of the run for the current config, which must not be refused.

    config.json is written last: if the process ends before, the next start does all this again.
    """
    added = [name for name in self._current['order'] if name not in self._saved['order']]
    for name in self._longer:
      epochs = _setting(self._current, name, 'train.epochs')
      _log(f'{self._workdir}: stage {name} goes on to {epochs:g} epochs')
      if self._finished.pop(name, None) is not None:
        write_json(self._workdir / 'stages.json', self._finished)
    if added:
      _log(f'{self._workdir} goes on with further stages: {", ".join(added)}')
    self._move_results()
    write_json(self._workdir / 'config.json', self._current)

  def _move_results(self) -> None:
    """Moves the results of the stage that was the last one to the folder of its name.

    In object stores they stay, and are made again.
    """
    before, now = (ConfigDict(config) for config in (self._saved, self._current))
    scored = [name for name in results.scored_stages(before) if name in self._begun]
    for name in scored:
      source, target = (results.folder(name, c, self._workdir) for c in (before, now))
      if source == target or not is_local(self._workdir) or not source.is_dir():
        continue
      for path in source.iterdir():
        if path.is_dir() and path.name not in self._saved['order']:
          target.mkdir(exist_ok=True)
          path.rename(target / path.name)


def _setting(config: Mapping, stage: str, key: str) -> Any:
  """The value of a dotted key in a stage of a config."""
  for tree in (config['stages'][stage], config):
    value: Any = tree
    for name in key.split('.'):
      value = value.get(name) if isinstance(value, Mapping) else None
    if value is not None:
      return value
  return None


def _anneals(config: Mapping, stage: str) -> bool:
  """Whether a setting of a stage's model changes with the share of its steps that are done."""
  start, end = _setting(config, stage, 'train.annealed') or (0.0, 1.0)
  if start == end:
    return False
  changes = config['stages'][stage].get('model', {})
  replaced = changes.get('name') not in (None, config['model']['name'])
  settings = changes if replaced else {**config['model'], **changes}
  model = models.build(settings, _ANY_SIZE).config
  if not hasattr(model, 'settings_at'):
    return False
  return model.settings_at(start, train=True) != model.settings_at(end, train=True)


def _log(text: str) -> None:
  if is_main():
    print(text, flush=True)
