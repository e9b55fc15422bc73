"""Sections of a config as frozen dataclasses, which name and explain the keys of the section."""

import dataclasses
import difflib
import typing
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from vidcap_jax.errors import ConfigError

T = TypeVar('T')


def read_section(section_type: type[T], section: Mapping, key: str, owner: str = '') -> T:
  """A section of a config as a dataclass; keys that it lacks have the dataclass's defaults.

  Args:
    section_type: a dataclass; a field that is a dataclass itself is a section inside.
    section: field -> value. ``name``, which chose the dataclass, may be among them.
    key: of the section in the config, for messages.
    owner: what has the settings, for messages, e.g. "objective 'refocus'".

  Raises:
    ConfigError: an unknown key, with those like it; or a key without default is missing.
  """
  types = typing.get_type_hints(section_type)
  fields = {field.name: field for field in dataclasses.fields(section_type)}  # type: ignore[arg-type]
  values: dict[str, Any] = {}
  for name, value in section.items():
    if name == 'name' and name not in fields:
      continue
    if name not in fields:
      raise ConfigError(unknown_key(key, name, list(fields), owner))
    if isinstance(value, Mapping) or hasattr(value, 'to_dict'):
      inner = types[name]
      nested = isinstance(inner, type) and dataclasses.is_dataclass(inner)
      values[name] = read_section(inner, value, f'{key}.{name}', owner) if nested else dict(value)
    else:
      values[name] = tuple(value) if isinstance(value, list) else value
  missing = dataclasses.MISSING
  for name, field in fields.items():
    if name not in values and field.default is missing and field.default_factory is missing:
      raise ConfigError(f'config.{key}.{name} is not set{owner and f"; {owner} needs it"}')
  return section_type(**values)


def unknown_key(section: str, name: str, known: Collection[str], owner: str) -> str:
  """The message about a key that a section does not have, with those like it."""
  near = near_keys(name, known)
  hint = f'did you mean {" or ".join(f"{section}.{other}" for other in near)}?'
  if not near:
    hint = f'known: {", ".join(known) or "none"}'
  return f'config.{section}.{name}: {owner or f"config.{section}"} has no such key; {hint}'


def unknown_name(key: str, name: str, known: Collection[str], also: str = '') -> str:
  """The message about a name that does not exist, with those like it and all known ones.

  Args:
    key: of the setting, e.g. 'model.name'.
    name: its value.
    known: names that exist.
    also: another form that a name may have.
  """
  near = difflib.get_close_matches(name, known)
  hint = f'did you mean {" or ".join(near)}? ' if near else ''
  return f'unknown {key} {name!r}; {hint}known: {", ".join(known)}{also and f", or {also}"}'


def near_keys(key: str, known: Collection[str]) -> list[str]:
  """The known keys that a misspelt one may have meant: in another section, or spelt alike."""
  name = key.rpartition('.')[2]
  same_name = [other for other in known if other.rpartition('.')[2] == name]
  alike = [other for other in difflib.get_close_matches(key, known) if other not in same_name]
  if not (same_name or alike):  # the section is wrong or left out, and the name misspelt too
    names = difflib.get_close_matches(name, {other.rpartition('.')[2] for other in known})
    return [other for other in known if other.rpartition('.')[2] in names]
  return same_name + alike
