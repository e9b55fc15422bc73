"""Config files as modules, and the check that one defines what a command needs of it.

The head of ``configs/common.py`` says what a config file defines. Training needs ``get_config``
alone (``load_config``); the tables of papers, ``benchmarks.sizes`` and ``--mode=compile`` need more
(``load``).
"""

import contextvars
import difflib
import importlib.util
import pathlib
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar

from ml_collections import ConfigDict

from vidcap_jax import config_keys
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.variants import read_variant

PURPOSES = {
  'get_config': 'a function from a variant to its settings',
  'VARIANTS': 'name -> values that a part of the variant may have, the default first',
  'STREAMS': 'the streams of the data, from which sizes are computed',
  'VOCABULARY': "the number of words of the data's vocabulary",
}
_PUBLISHED_KEYS = {'row', 'split', 'scores'}


def load(path: str | pathlib.Path, needs: Sequence[str] = tuple(PURPOSES)) -> ModuleType:
  """A config file as a module that defines what is needed.

  Args:
    path: the file.
    needs: keys of ``PURPOSES``.

  Raises:
    ConfigError: no such file; or a definition that is missing or not of the form that
      ``configs/common.py`` describes.
  """
  return _checked(path, _execute(path), needs)


def _checked(path: str | pathlib.Path, module: ModuleType, needs: Sequence[str]) -> ModuleType:
  """The module, after the checks of ``load``."""
  if missing := [f'{name} ({PURPOSES[name]})' for name in needs if not hasattr(module, name)]:
    raise ConfigError(
      f'config file {path} does not define {", ".join(missing)}; see the head of configs/common.py'
    )
  if 'VARIANTS' in needs:
    _check_variants(path, module.VARIANTS)
    for name in ('STREAMS', 'VOCABULARY'):
      if name in needs:
        _check_data_sets(path, name, getattr(module, name), module.VARIANTS)
  return module


_T = TypeVar('_T', bound=ConfigDict)
# The defaults that a config file starts from, noted while its get_config runs.
_noted_defaults: contextvars.ContextVar[list[ConfigDict]] = contextvars.ContextVar('defaults')


def note_defaults(config: _T) -> _T:
  """Notes that a config file starts from these defaults: other keys are refused once it is loaded.

  Args:
    config: all keys with their defaults, before any change.

  Returns:
    The same config.
  """
  noted = _noted_defaults.get(None)
  if noted is not None:
    noted.append(config.copy_and_resolve_references())
  return config


def load_config(source: str) -> ConfigDict:
  """The locked config that ``get_config`` of a config file returns.

  If the file starts from defaults (``note_defaults``), then its keys are compared with these and
  those that it lacks are filled in.

  Args:
    source: FILE or FILE:VARIANT.

  Raises:
    ConfigError: no such file, a file without ``get_config``, an unknown variant, an unknown key, or
      a value of another type than its default.
  """
  path, colon, variant = source.partition(':')
  noted: list[ConfigDict] = []
  token = _noted_defaults.set(noted)
  try:
    module = _checked(path, _execute(path), ['get_config'])
    config = module.get_config(*([variant] if colon else []))
  except UserError as error:
    known = str(error).startswith(('config file', '--config='))
    raise ConfigError(str(error) if known else f'--config={source}: {error}') from None
  except (AttributeError, KeyError, TypeError, ValueError) as error:
    problem = _problem(error, noted)
    if not problem:
      raise
    raise ConfigError(f'--config: {problem}') from None
  finally:
    _noted_defaults.reset(token)
  if not isinstance(config, ConfigDict):
    what = 'nothing' if config is None else f'a {type(config).__name__}'
    raise ConfigError(
      f'config file {path}: get_config returns {what}, not a ConfigDict; end it with: return c'
    )
  if noted:
    _complete(source, config, noted[0])
  return config.lock()


def _complete(source: str, config: ConfigDict, defaults: ConfigDict) -> None:
  """Checks the keys and types of a config and of its stages, and fills in what it lacks."""
  try:
    config_keys.check_keys(defaults, config)
    config_keys.fill(config, defaults)
    for stage, changes in config.stages.items():
      where = f'config.stages.{stage}'
      if not isinstance(changes, ConfigDict):
        raise ConfigError(f'{where}: must be {config_keys.type_text("ConfigDict")}')
      config_keys.check_keys(defaults, changes, where)
  except ConfigError as error:
    raise ConfigError(f'--config={source}: {error}') from None


def _problem(error: Exception, noted: Sequence[ConfigDict]) -> str:
  """What is wrong in which line, for an error of a ``ConfigDict`` or of values; '' for others.

  Args:
    error: raised by a config file.
    noted: the defaults that it starts from, or none.
  """
  trace = traceback.extract_tb(error.__traceback__)
  frames = [f for f in trace if f.filename != __file__]
  frames = [f for f in frames if 'site-packages' not in f.filename and f.filename[0] != '<']
  at = f'{frames[-1].filename}, line {frames[-1].lineno}: {frames[-1].line}: ' if frames else ''
  found = re.search(r'Key "(\w+)" does not exist and cannot be added', str(error))
  if 'ml_collections' in trace[-1].filename and isinstance(error, AttributeError | KeyError):
    found = found or re.search(r'(\w+)', str(error))  # a section that is only read
  if found:
    known = list(config_keys.all_keys(noted[0])) if noted else []
    return at + config_keys.unknown_key(repr(found[1]), found[1], known)
  if found := re.search(_OTHER_TYPE, str(error), re.DOTALL):
    key, value, given, expected = found.groups()
    if len(value) > 40 or '\n' in value:
      value = 'the value'
    given = given.rpartition('.')[2]
    return f'{at}{key!r} must be {config_keys.type_text(expected)}, but {value} is of type {given}'
  return f'{at}{error}' if isinstance(error, TypeError | ValueError) else ''


# What ConfigDict raises for a value of another type.
_OTHER_TYPE = (
  r"Could not override field '(\w+)' \(reference\)\. (.*) is of original type <class '([\w.]+)'> "
  r"and cannot be casted to type <class '([\w.]+)'>"
)


def current_source(source: str) -> str:
  """What ``--config`` names, under its name of today: see RENAMED_TO in ``configs/common.py``.

  Args:
    source: FILE or FILE:VARIANT.

  Raises:
    ConfigError: no such file.
  """
  path, _, variant = source.partition(':')
  renamed_to = getattr(_execute(path), 'RENAMED_TO', None)
  if renamed_to is None:
    return source
  renamed = str(pathlib.Path(path).with_name(renamed_to))
  return f'{renamed},{variant}' if variant else renamed


def for_variant(module: ModuleType, name: str, variant: str) -> Any:
  """STREAMS or VOCABULARY of the data set that a variant chooses.

  Args:
    module: of ``load``.
    name: 'STREAMS' or 'VOCABULARY'.
    variant: as after the file's colon.

  Raises:
    ConfigError: an unknown variant.
  """
  value = getattr(module, name)
  if 'data' not in module.VARIANTS:
    return value
  return value[read_variant(variant, **module.VARIANTS)['data']]


def published(path: str | pathlib.Path) -> tuple[Mapping[str, Any], ...]:
  """The rows of a config file's PUBLISHED, see the head of ``configs/common.py``; () without it.

  Raises:
    ConfigError: no such file, or a row of another form.
  """
  rows = getattr(_execute(path), 'PUBLISHED', ())
  for number, row in enumerate(rows):
    fits = isinstance(row, Mapping) and row.keys() >= _PUBLISHED_KEYS
    if not fits or not isinstance(row['scores'], Mapping):
      raise ConfigError(
        f'config file {path}: PUBLISHED[{number}] is {row!r}, not a dictionary with '
        f'{", ".join(sorted(_PUBLISHED_KEYS))}, whose scores are a dictionary'
      )
  return tuple(rows)


# The folder that has the package ``configs``, beside this one, also in an installation.
_INSTALLED = pathlib.Path(__file__).resolve().parents[1]


def find_file(path: str | pathlib.Path) -> pathlib.Path:
  """A config file: as the path is written, or, for ``configs/FILE``, the project's own.

  The current folder comes first, so that a file there may have the name of one of the project.

  Args:
    path: as ``--config`` names it, without a variant.

  Raises:
    ConfigError: there is no such file; the message has those with a similar name.
  """
  written = pathlib.Path(path)
  if written.is_file():
    return written
  installed = _INSTALLED / written
  if written.parts[:1] == ('configs',) and installed.is_file():
    return installed
  known = [file.stem for file in sorted((_INSTALLED / 'configs').glob('*.py'))]
  near = difflib.get_close_matches(written.stem, known, n=1)
  hint = f'; did you mean configs/{near[0]}.py?' if near else ''
  raise ConfigError(f'--config={path}: no such file{hint}')


def _execute(path: str | pathlib.Path) -> ModuleType:
  file = find_file(path)
  spec = importlib.util.spec_from_file_location(f'config_file_{file.stem}', file)
  if spec is None or spec.loader is None:
    raise ConfigError(f'--config={path}: not a Python file')
  module = importlib.util.module_from_spec(spec)
  sys.modules[spec.name] = module  # dataclasses look up their module there
  spec.loader.exec_module(module)
  return module


def _check_variants(path: str | pathlib.Path, known: Any) -> None:
  """ConfigError unless every part of a variant has its values in a tuple or list."""
  if not isinstance(known, Mapping):
    raise ConfigError(f'config file {path}: VARIANTS is not a dictionary but {known!r}')
  for name, values in known.items():
    listed = isinstance(values, (tuple, list)) and all(isinstance(value, str) for value in values)
    if not (listed and values):
      raise ConfigError(
        f'config file {path}: VARIANTS[{name!r}] is {values!r}, not a tuple of one value or more'
      )


def _check_data_sets(path: str | pathlib.Path, name: str, value: Any, known: Mapping) -> None:
  """ConfigError unless there is one value, or one for each data set."""
  if 'data' not in known:
    _check_form(path, name, value)
    if isinstance(value, Mapping):
      raise ConfigError(
        f'config file {path}: {name} is a dictionary, one entry for each data set, but VARIANTS '
        "has no part 'data' that names them"
      )
  elif not isinstance(value, Mapping) or {*known['data']} - {*value}:
    raise ConfigError(
      f'config file {path}: {name} is not a dictionary with an entry for each data set that '
      f'VARIANTS names: {", ".join(known["data"])}'
    )
  else:
    for data_set in known['data']:
      _check_form(path, f'{name}[{data_set!r}]', value[data_set])


def _check_form(path: str | pathlib.Path, name: str, value: Any) -> None:
  """ConfigError unless STREAMS is a tuple or list, and VOCABULARY a number."""
  if isinstance(value, Mapping):  # of data sets
    return
  fits, text = isinstance(value, int), 'a whole number'
  if name.startswith('STREAMS'):
    fits, text = isinstance(value, tuple | list), 'a tuple of vidcap_jax.data.schema.Stream'
  if not fits:
    raise ConfigError(f'config file {path}: {name} is {value!r}, not {text}')
