"""Compares keys and types of a config, or of a stage's changes, with those of the defaults."""

import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Any

from ml_collections import ConfigDict

from vidcap_jax.config_section import near_keys
from vidcap_jax.errors import ConfigError

# Sections with keys of their own: settings of a model or an objective, stages, streams.
OPEN_SECTIONS = ('model', 'objective', 'stages', 'data.recipe.streams')
_TYPES = {
  'bool': 'True or False (bool)',
  'int': 'a whole number (int)',
  'float': 'a number (float)',
  'str': 'a string (str)',
  'tuple': 'a tuple',
  'ConfigDict': 'a section with keys of its own',
}


def type_text(name: str) -> str:
  """What a value of a type is, for messages.

  Args:
    name: of the type; a module's name before it is left out.
  """
  name = name.rpartition('.')[2]
  return _TYPES.get(name, name)


def all_keys(section: Mapping, prefix: str = '') -> Iterator[str]:
  """Dotted names of all values and sections."""
  for name, value in section.items():
    yield f'{prefix}{name}'
    if isinstance(value, Mapping | ConfigDict):
      yield from all_keys(value, f'{prefix}{name}.')


def unknown_key(where: str, key: str, known: list[str]) -> str:
  """The message about a key that does not exist, with those like it.

  Args:
    where: the whole name of the key, e.g. 'config.stages.rl.train.epoch'.
    key: as it would be in ``known``, e.g. 'train.epoch'.
    known: dotted keys.
  """
  near = near_keys(key, known)
  hint = f'did you mean {" or ".join(near)}?' if near else 'configs/common.py explains them all'
  return f'{where}: there is no such key; {hint}'


def check_keys(defaults: ConfigDict, values: Mapping, where: str = 'config') -> None:
  """Checks that each value has a key among the defaults and the type of its default.

  Args:
    defaults: all keys; sections of ``OPEN_SECTIONS`` may have others.
    values: some of these keys with their values.
    where: stands before a key in messages.

  Raises:
    ConfigError: an unknown key, with those like it; or a value of another type.
  """
  known = list(all_keys(defaults))

  def check_section(defaults: ConfigDict, values: Mapping, prefix: str, is_open: bool) -> None:
    for name, value in values.items():
      key = f'{prefix}{name}'
      if name in defaults:
        default = defaults[name]
        if not _fits(default, value):
          raise ConfigError(
            f'{where}.{key}: must be {type_text(type(default).__name__)}, not '
            f'{value if isinstance(value, ConfigDict) else repr(value)} ({type(value).__name__})'
          )
        if isinstance(default, ConfigDict):
          check_section(default, value, f'{key}.', is_open or key in OPEN_SECTIONS)
      elif not is_open:
        raise ConfigError(unknown_key(f'{where}.{key}', key, known))

  check_section(defaults, values, '', False)


def fill(config: ConfigDict, defaults: ConfigDict) -> None:
  """Adds the defaults that a config lacks, and converts its values to the types of the defaults.

  A config lacks them where it replaced a whole section by a dictionary of some keys.

  Args:
    config: has passed ``check_keys``; it is changed, and may be locked.
    defaults: all keys.
  """
  with config.unlocked():
    for key in all_keys(defaults):
      if key.startswith(('stages.', 'data.recipe.streams.')):
        continue
      section, _, name = key.rpartition('.')
      inner = _value(config, section)
      default = _value(defaults, key)
      if name not in inner:
        is_section = isinstance(default, ConfigDict)
        inner[name] = default.copy_and_resolve_references() if is_section else default
      elif type(inner[name]) is not type(default) and inner[name] is not None:
        converted = _converted(default, inner[name])
        with inner.ignore_type():
          inner[name] = converted


def _value(config: ConfigDict, key: str) -> Any:
  return functools.reduce(operator.getitem, filter(None, key.split('.')), config)


def _fits(default: Any, value: Any) -> bool:
  if isinstance(default, ConfigDict):
    return isinstance(value, Mapping | ConfigDict)
  try:
    _converted(default, value)
  except TypeError:
    return False
  return True


def _converted(default: Any, value: Any) -> Any:
  """The value as a ConfigDict converts it; TypeError where it is of another type."""
  holder = ConfigDict({'value': default})
  holder.value = value
  return holder.value
