"""Configs as a run saves them, their differences, and the settings that no stage can change."""

import json
import os
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

ABSENT = '(absent)'
# Settings of a whole run. A stage that changes them is refused, as the change would have no effect.
_RUN_SETTINGS = (
  *('source', 'seeds', 'order', 'stages', 'data.recipe.', 'eval.splits'),
  *('mesh.data', 'mesh.model', 'runtime.'),
)


# Keys added after runs had been saved -> their value in such a run, which trains as it has begun.
ADDED_KEYS = {'train.first_epoch': 0.0, 'train.annealed': [0.0, 1.0]}
# The same of settings that only some models and objectives have: (section, its name, key) -> value.
ADDED_SETTINGS = {
  ('objective', 'self_critical', 'encoder'): 'trained',
  ('objective', 'self_critical', 'temperature'): 1.0,
  ('model', 'dual_afr', 'embed_last'): False,
}
# Keys that config files have had other values of since then, and those that their stages have had.
_CHANGED_KEYS = ('data.standardise', 'optimizer.clip_norm')
_CHANGED_STAGE_KEYS = ('train.scheduled_sampling.name',)
# Key -> its value in config files before, and since: a run that has the first keeps it.
_CHANGED_VALUES = {'data.length_buckets': ([9, 11, 13, 16], [7, 9, 11, 13, 16])}


def with_added_keys(saved: Mapping) -> dict:
  """A saved config with the keys added later that it lacks, to be compared with newer ones."""
  config = ConfigDict(json.loads(json.dumps(saved)))
  for key, value in ADDED_KEYS.items():
    section, _, name = key.rpartition('.')
    if section in config and name not in config[section]:
      config[section][name] = value
  for changes in (config, *config.get('stages', {}).values()):
    for (section, owner, name), value in ADDED_SETTINGS.items():
      settings = changes.get(section, {})
      if settings.get('name') == owner and name not in settings:
        settings[name] = value
  return as_saved(config)


def as_begun(config: ConfigDict, saved: Mapping) -> tuple[ConfigDict, list[str]]:
  """The config that a run goes on with which was begun with an earlier version.

  Args:
    config: of today.
    saved: the run's own, as from ``as_saved``.

  Returns:
    ``config`` itself where nothing differs by version. Of a run from before ``ADDED_KEYS``, a copy
    without them and without ``ADDED_SETTINGS``; with the saved values of the keys that config files
    have changed since; and the names of all that was removed or replaced.
  """
  values, current = _flat(saved), _flat(as_saved(config))
  keys = tuple(
    key
    for key, (before, since) in _CHANGED_VALUES.items()
    if (values.get(key), current.get(key)) == (before, since)
  )
  lacks_keys = bool(ADDED_KEYS.keys() - values.keys())
  if not keys and not lacks_keys:
    return config, []
  config, replaced = config.copy_and_resolve_references(), []
  stage_keys: tuple[str, ...] = ()
  if lacks_keys:
    added = (*ADDED_KEYS, *(f'{section}.{name}' for section, _, name in ADDED_SETTINGS))
    keys, stage_keys = (*added, *_CHANGED_KEYS, *keys), (*added, *_CHANGED_STAGE_KEYS)
  with config.unlocked():
    for prefix in ('', *(f'stages.{name}.' for name in config.stages)):
      for key in stage_keys if prefix else keys:
        if _replace(config, saved, prefix + key):
          replaced.append(prefix + key)
  return config, replaced


def _replace(config: ConfigDict, saved: Mapping, key: str) -> bool:
  """Gives a key its saved value, or removes it if there is none; returns whether it changed."""
  *sections, name = key.split('.')
  inner: Any = config
  for section in sections:
    if section not in inner:
      return False
    inner = inner[section]
  values = _flat(saved)
  if inner.get(name, ABSENT) == values.get(key, ABSENT):
    return False
  if key in values:
    inner[name] = values[key]
  else:
    del inner[name]
  return True


def as_saved(config: ConfigDict) -> dict:
  """What ``config.json`` holds: the config with lists for tuples."""
  return json.loads(json.dumps(config.to_dict()))


def differences(one: Mapping, other: Mapping) -> dict[str, tuple[Any, Any]]:
  """Dotted name -> both values, of all that are not equal; ``ABSENT`` where a config lacks it.

  Two spellings of a path, such as ``data/mine`` and ``./data/mine/``, are equal.

  Args:
    one, other: nested dicts, as from ``as_saved``.
  """
  a, b = _flat(one), _flat(other)
  both = {key: (a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys())}
  return {key: (x, y) for key, (x, y) in both.items() if _comparable(x) != _comparable(y)}


def _comparable(value: Any) -> Any:
  """A value with one spelling for each path; text without a slash stays as it is."""
  if isinstance(value, list | tuple):
    return [_comparable(item) for item in value]
  return os.path.normpath(value) if isinstance(value, str) and '/' in value else value


def run_settings(changes: Mapping) -> list[str]:
  """Dotted names of the changes, a nested dict, that can't be made for one stage."""
  return [key for key in _flat(changes) if key.startswith(_RUN_SETTINGS)]


def _flat(tree: Mapping, prefix: str = '') -> dict[str, Any]:
  flat: dict[str, Any] = {}
  for key, value in tree.items():
    if isinstance(value, Mapping):
      flat |= _flat(value, f'{prefix}{key}.')
    else:
      flat[prefix + key] = value
  return flat
