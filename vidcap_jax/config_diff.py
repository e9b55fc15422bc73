"""Configs as a run saves them, their differences, and the settings that no stage can change."""

import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

ABSENT = '(absent)'
# Settings of a whole run. A stage that changes them is refused, as the change would have no effect.
_RUN_SETTINGS = (
  *('source', 'seeds', 'order', 'stages', 'data.recipe.', 'eval.splits'),
  *('mesh.data', 'mesh.model', 'runtime.'),
)


def as_saved(config: ConfigDict) -> dict:
  """What ``config.json`` holds: the config with lists for tuples."""
  return json.loads(json.dumps(config.to_dict()))


def differences(one: Mapping, other: Mapping) -> dict[str, tuple[Any, Any]]:
  """Dotted name -> both values, of all that are not equal; ``ABSENT`` where a config lacks it.

  Args:
    one, other: nested dicts, as from ``as_saved``.
  """
  a, b = _flat(one), _flat(other)
  both = {key: (a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys())}
  return {key: (x, y) for key, (x, y) in both.items() if x != y}


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
