"""Values of the build's flags: text of a command line, or Python's own types, as options."""

import argparse
import difflib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from data_prep.dataset.options import Options
from vidcap_jax import command_arguments
from vidcap_jax.annotations.model import normalize_split
from vidcap_jax.errors import DataError


def of_keywords(parser: argparse.ArgumentParser, keywords: Mapping[str, Any]) -> dict[str, Any]:
  """Keyword arguments, which are named as the flags of a parser, by the parser's own names.

  Args:
    parser: its choices, types and required flags are checked.
    keywords: values by name; None is left out.

  Raises:
    TypeError: an unknown name, or a required one that is missing.
    UserError: an empty path.
    DataError: a value of another form.
  """
  actions = {
    name.removeprefix('--'): action
    for action in parser._actions
    for name in action.option_strings
    if name.startswith('--') and action.dest != 'help'
  }
  values = {}
  for name, value in keywords.items():
    if name not in actions:
      near = difflib.get_close_matches(name, actions)
      hint = f'; did you mean {" or ".join(near)}?' if near else ''
      raise TypeError(f'build() got an unexpected keyword argument {name!r}{hint}')
    choices = actions[name].choices
    if choices and value is not None and value not in choices:
      raise DataError(f'--{name}={value}: give one of {", ".join(map(str, choices))}')
    command_arguments.check_path(f'--{name}', actions[name], value)
    values[actions[name].dest] = _as_parsed(actions[name], name, _without_path_objects(value))
  required = {action.dest: name for name, action in actions.items() if action.required}
  if missing := [name for dest, name in required.items() if values.get(dest) is None]:
    raise TypeError(f'build() lacks {", ".join(missing)}')
  return values


def _as_parsed(action: argparse.Action, name: str, value: Any) -> Any:
  """A number in the type that the command would make of its text."""
  if action.type not in (int, float) or value is None:
    return value
  try:
    number = action.type(value)
    if number != float(value):
      raise ValueError
  except (TypeError, ValueError):
    kind = 'whole number' if action.type is int else 'number'
    raise DataError(f'--{name}={value}: not a {kind}') from None
  return number


def _without_path_objects(value: Any) -> Any:
  """A value with text in place of path objects."""
  if isinstance(value, os.PathLike):
    return os.fspath(value)
  if isinstance(value, Mapping):
    return {key: _without_path_objects(each) for key, each in value.items()}
  if isinstance(value, list | tuple):
    return [_without_path_objects(each) for each in value]
  return value


def to_options(flags: Mapping[str, Any]) -> Options:
  """The values of flags as options; those that are None keep the defaults of ``Options``.

  Args:
    flags: mappings (stream -> value) and lists are taken as they are, text as a command line has
      it.

  Raises:
    DataError: a value of another form.
  """
  given = {name: value for name, value in flags.items() if value is not None}
  own = [f for f in ('min_count', 'max_words', 'tokenizer', 'leak_words_of') if f in given]
  if given.get('vocabulary') and own:
    raise DataError(f'--vocabulary brings its own {", ".join(own)}; leave --{own[0]} out')
  values: dict[str, Any] = dict(given)
  values['annotations'] = _paths('--annotations', given['annotations'])
  values['features'] = _pairs('--features', given['features'])
  if 'match' in given:
    values['match'] = tuple(rule for rule in _items(given['match']) if rule not in ('', 'none'))
  if 'optional' in given:
    values['optional'] = tuple(filter(None, _items(given['optional'])))
  if 'leak_words_of' in given:
    values['leak_words_of'] = tuple(map(normalize_split, _items(given['leak_words_of'])))
  for name in given.keys() & {'kinds', 'layouts', 'keys', 'rows', 'readers', 'align'}:
    values[name] = _pairs('--layout' if name == 'layouts' else f'--{name}', given[name])
  for name in given.keys() & {'blocks', 'max_frames', 'max_regions'}:
    values[name] = _numbers(f'--{name}', given[name])
  return Options(**values)


def _items(given: str | Sequence[str]) -> list[str]:
  """A list, or the parts of a text between commas."""
  return given.split(',') if isinstance(given, str) else list(given)


def _paths(flag: str, given: str | Sequence[str]) -> tuple[str, ...]:
  # A comma may be part of a file's name.
  if isinstance(given, str) and pathlib.Path(given).exists():
    given = [given]
  paths = tuple(filter(None, _items(given)))
  if not paths:
    raise DataError(f'{flag}=: an empty path; give a file, several or a folder')
  return paths


def _pairs(option: str, given: str | Mapping[str, str]) -> dict[str, str]:
  """A mapping, or NAME=VALUE pairs with commas between them."""
  if isinstance(given, Mapping):
    return dict(given)
  if not isinstance(given, str):
    raise DataError(f'{option}: give a dictionary, or text NAME=VALUE,…; not {given!r}')
  pairs: dict[str, str] = {}
  for part in filter(None, given.split(',')):
    name, equals, value = part.partition('=')
    if not equals or not value:
      raise DataError(f'{option}: {part!r} is not of the form NAME=VALUE')
    if name in pairs:
      raise DataError(f'{option}: {name!r} is given twice')
    pairs[name] = value
  return pairs


def _numbers(option: str, given: str | Mapping[str, Any]) -> dict[str, int]:
  numbers = {}
  for name, value in _pairs(option, given).items():
    if not str(value).isdecimal():
      raise DataError(f'{option}: {name}={value}: not a whole number')
    numbers[name] = int(value)
  return numbers
