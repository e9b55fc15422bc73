"""The text of ``--print_config``: every key of a run, its value and what it means."""

import dataclasses
import inspect
import sys
import textwrap
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from vidcap_jax.cli import explanations
from vidcap_jax.training import checks, experiment

WIDTH = 100
MOST_KEY = 40  # columns of a key, or of the stages that have a value
MOST_VALUE = 24  # columns of a value; the explanation of a longer one is on the next line
OPEN = ('model', 'objective')  # sections whose keys depend on their `name`
NOT_SET = '*'


@dataclasses.dataclass(frozen=True)
class Row:
  """A line of the table.

  Attributes:
    key: dotted, or the stages that have another value.
    value: as Python writes it.
    explanation: '' for a stage's value.
  """

  key: str
  value: str
  explanation: str = ''


def config_text(config: ConfigDict) -> str:
  """Every key of a run, section by section, with the values of stages that differ.

  Raises:
    ConfigError, DataError: settings that training would refuse, of any stage.
  """
  experiment.check_settings(config)
  stages = {name: experiment.stage_config(config, name) for name in config.order}
  explained = _common_explanations()
  head = [
    f'{config.source or "config"}: every key, its value and what it means.',
    'Change a key with --config.KEY=VALUE, and for one stage with --config.stages.STAGE.KEY=VALUE '
    'if the config file sets it there.',
    f'{NOT_SET} marks a default of the model or objective, which the config file does not set.',
  ]
  parts = ['\n'.join(line for text in head for line in textwrap.wrap(text, WIDTH))]
  top = {key: value for key, value in config.items() if not isinstance(value, ConfigDict)}
  parts.append(_table(list(_rows('', top, stages, explained))))
  for section, value in _in_order('', config, explained):
    if section in OPEN:
      parts += _named_sections(section, config, stages)
    elif isinstance(value, ConfigDict) and section != 'stages':
      rows = list(_rows(f'{section}.', value, stages, explained))
      parts.append(_heading(section, explained.get(section, '')) + _table(rows))
  return '\n\n'.join(parts)


def _common_explanations() -> dict[str, str]:
  """Those of ``configs/common.py``, if the config was made from it."""
  common = sys.modules.get('configs.common')
  return explanations.from_comments(inspect.getsource(common.base)) if common else {}


def _in_order(prefix: str, section: Mapping, explained: Mapping[str, str]) -> list[tuple[str, Any]]:
  """The keys and values of a section, in the order of ``configs/common.py``."""
  order = {key: number for number, key in enumerate(explained)}
  place = lambda item: order.get(f'{prefix}{item[0]}', len(order))  # noqa: E731
  return sorted(section.items(), key=place)


def _heading(title: str, explanation: str) -> str:
  return title + (f': {explanation}' if explanation else '') + '\n'


def _rows(
  prefix: str,
  section: Mapping,
  stages: Mapping[str, ConfigDict],
  explained: Mapping[str, str],
) -> Iterator[Row]:
  """Rows of a section and those inside it.

  Args:
    prefix: of its keys, with a dot at the end.
    section: the run's values.
    stages: the config of each stage.
    explained: dotted key -> explanation.
  """
  for name, value in _in_order(prefix, section, explained):
    key = f'{prefix}{name}'
    inner = any(other.startswith(f'{key}.') for other in explained)
    if isinstance(value, ConfigDict) and (inner or key not in explained):
      yield from _rows(f'{key}.', value, stages, explained)
      continue
    yield Row(key, repr(_plain(value)), explained.get(key, ''))
    yield from _stage_rows(value, {stage: _value_of(c, key) for stage, c in stages.items()})


def _plain(value: Any) -> Any:
  """The value without a section's lock, which is no part of its value."""
  return value.to_dict() if isinstance(value, ConfigDict) else value


def _value_of(config: ConfigDict, key: str) -> Any:
  for name in key.split('.'):
    config = config[name]
  return config


def _stage_rows(value: Any, by_stage: Mapping[str, Any]) -> Iterator[Row]:
  """A row for each other value that stages have."""
  other: dict[str, list[str]] = {}
  for stage, own in by_stage.items():
    if _plain(own) != _plain(value):
      other.setdefault(repr(_plain(own)), []).append(stage)
  for text, names in other.items():
    yield Row(f'  in {", ".join(names)}', text)


def _named_sections(
  section: str, config: ConfigDict, stages: Mapping[str, ConfigDict]
) -> Iterator[str]:
  """A table for each model, or objective, that the stages train."""
  by_name: dict[str, dict[str, ConfigDict]] = {}
  for stage, own in stages.items():
    if own.task == 'train':
      by_name.setdefault(own[section].name, {})[stage] = own[section]
  for name, sections in by_name.items():
    title = f'{section} {name}'
    if len(by_name) > 1:
      title += f' (in {", ".join(sections)})'
    kind = checks.settings_type(section, name)
    values = {s: dict(_fields(f'{section}.', kind, own)) for s, own in sections.items()}
    first, *_ = values.values()
    rows = [Row(f'{section}.name', repr(name), f'which {section}')]
    for key, (text, explanation) in first.items():
      rows.append(Row(key, text, explanation))
      others = {s: own[key][0] for s, own in values.items() if key in own}
      rows += [dataclasses.replace(r, value=r.value[1:-1]) for r in _stage_rows(text, others)]
    yield _heading(title, '') + _table(rows)


def _fields(prefix: str, kind: type, given: Mapping) -> Iterator[tuple[str, tuple[str, str]]]:
  explained, types = explanations.from_docstring(kind), typing.get_type_hints(kind)
  for field in dataclasses.fields(kind):
    if field.name in checks.NO_SETTINGS:
      continue
    key, text = f'{prefix}{field.name}', explained.get(field.name, '')
    value, mark = given.get(field.name, dataclasses.MISSING), ''
    if value is dataclasses.MISSING:
      value, mark = _default(field), NOT_SET
    if dataclasses.is_dataclass(types[field.name]):
      inner = {} if mark else value
      yield from _fields(f'{key}.', types[field.name], inner)
    elif isinstance(value, Mapping | ConfigDict):
      for name, entry in value.items():
        yield f'{key}.{name}', (repr(entry) + mark, text)
        text = ''  # once for all of them
    else:
      yield key, (repr(value) + mark, text)


def _default(field: dataclasses.Field) -> Any:
  if field.default_factory is not dataclasses.MISSING:
    return field.default_factory()
  return '' if field.default is dataclasses.MISSING else field.default


def _table(rows: Sequence[Row]) -> str:
  """Rows with aligned columns; explanations are wrapped."""
  keys = max(len(row.key) for row in rows if len(row.key) <= MOST_KEY)
  values = max([len(row.value) for row in rows if len(row.value) <= MOST_VALUE], default=0)
  indent = 2 + keys + 2 + values + 2
  lines = []
  for row in rows:
    first = f'  {row.key:{keys}}  {row.value:{values}}  '
    text = row.explanation.replace('``', '')
    text = text if '. ' in text else text.removesuffix('.')
    wrapped = textwrap.wrap(text, max(30, WIDTH - indent))
    if len(first) > indent and wrapped:
      lines.append(first.rstrip())
      first = ' ' * indent
    lines.append((first + ''.join(wrapped[:1])).rstrip())
    lines += [' ' * indent + line for line in wrapped[1:]]
  return '\n'.join(lines)
