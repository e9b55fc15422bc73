"""Config files as modules, and the check that one defines what a command needs of it.

The head of ``configs/common.py`` says what a config file defines. Training needs ``get_config``
alone; the tables of papers and ``benchmarks.sizes`` load files here, as they need more.
"""

import importlib.util
import pathlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from vidcap_jax.errors import ConfigError
from vidcap_jax.variants import read_variant

PURPOSES = {
  'get_config': 'a function from a variant to its settings',
  'VARIANTS': 'name -> values that a part of the variant may have, the default first',
  'STREAMS': 'the streams of the data, from which sizes are computed',
  'VOCABULARY': "the number of words of the data's vocabulary",
}


def load(path: str | pathlib.Path, needs: Sequence[str] = tuple(PURPOSES)) -> ModuleType:
  """A config file as a module that defines what is needed.

  Args:
    path: the file.
    needs: keys of ``PURPOSES``.

  Raises:
    ConfigError: no such file; or a definition that is missing or not of the form that
      ``configs/common.py`` describes.
  """
  module = _execute(path)
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


def _execute(path: str | pathlib.Path) -> ModuleType:
  spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
  if spec is None or spec.loader is None or not pathlib.Path(path).is_file():
    raise ConfigError(f'--config={path}: no such file')
  module = importlib.util.module_from_spec(spec)
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
