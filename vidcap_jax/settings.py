"""A config's settings as a run saves them, and which of them differ between two configs."""

import json
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

ABSENT = '(absent)'


def as_saved(config: ConfigDict) -> dict:
  """What ``config.json`` holds: the config with lists for tuples."""
  return json.loads(json.dumps(config.to_dict()))


def differing(one: Mapping, other: Mapping) -> dict[str, tuple[Any, Any]]:
  """Dotted name -> both values, ``ABSENT`` where a config lacks it, of all that are not equal.

  Args:
    one, other: nested dicts, as from ``as_saved``.
  """
  a, b = _flat(one), _flat(other)
  both = {key: (a.get(key, ABSENT), b.get(key, ABSENT)) for key in sorted(a.keys() | b.keys())}
  return {key: (x, y) for key, (x, y) in both.items() if x != y}


def _flat(tree: Mapping, prefix: str = '') -> dict[str, Any]:
  flat: dict[str, Any] = {}
  for key, value in tree.items():
    if isinstance(value, Mapping):
      flat |= _flat(value, f'{prefix}{key}.')
    else:
      flat[prefix + key] = value
  return flat
