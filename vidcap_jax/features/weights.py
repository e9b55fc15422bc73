"""Finds the weights files of networks; nothing is downloaded.

A network's weights file is the one given for it (``--weights=NAME=PATH``), or else ``NAME.pth``, or
NAME with any other ending, in the cache folder. That is ``~/.cache/vidcap_jax/weights``, or the
folder that the environment variable ``VIDCAP_JAX_WEIGHTS`` names.
"""

import functools
import hashlib
import os
import pathlib
from collections.abc import Mapping

from vidcap_jax.errors import UserError

VARIABLE = 'VIDCAP_JAX_WEIGHTS'

_paths: dict[str, pathlib.Path] = {}  # as of the last ``set_paths``


class WeightsError(UserError):
  """Missing or unusable weights; the message says what to fetch and where to put it."""


def folder() -> pathlib.Path:
  """The cache folder."""
  default = pathlib.Path('~/.cache/vidcap_jax/weights').expanduser()
  return pathlib.Path(os.environ.get(VARIABLE) or default)


def set_paths(paths: Mapping[str, str | pathlib.Path]) -> None:
  """Sets the weights files of networks, to use instead of those in the cache folder.

  Raises:
    WeightsError: no such file.
  """
  for name, path in paths.items():
    if not pathlib.Path(path).is_file():
      raise WeightsError(f'weights of {name}: {path}: no such file')
  _paths.clear()
  _paths.update({name: pathlib.Path(path).resolve() for name, path in paths.items()})


def paths() -> dict[str, pathlib.Path]:
  """The weights files of the last ``set_paths``, by network."""
  return dict(_paths)


def find_optional(name: str) -> pathlib.Path | None:
  """The file given for a network, or the one in the cache folder; None if there is none.

  Raises:
    WeightsError: the cache folder holds several.
  """
  if name in _paths:
    return _paths[name]
  parent, prefix = _cached(name)
  files = [f for f in sorted(parent.glob('*')) if f.name.startswith(prefix) and f.is_file()]
  if len(files) > 1:
    names = ', '.join(file.name for file in files)
    raise WeightsError(
      f'weights of {name}: {parent} holds {names}; keep one, or give its path with '
      f'--weights={name}=PATH'
    )
  return files[0] if files else None


def _cached(name: str) -> tuple[pathlib.Path, str]:
  """The folder in the cache for a network's file, and how the file's name begins."""
  return (folder() / name).parent, name.rpartition('/')[2] + '.'


def find(name: str, fetch: str) -> pathlib.Path:
  """The weights file of a network.

  Args:
    name: of the network.
    fetch: what to fetch and from where, for the message.

  Raises:
    WeightsError: there is no file, or there are several.
  """
  path = find_optional(name)
  if path is not None:
    return path
  parent, prefix = _cached(name)
  raise WeightsError(
    f'weights of {name}: no file {prefix}* in {parent}. Fetch {fetch}, and put it there with its '
    f'ending (the environment variable {VARIABLE} names another folder), or give its path with '
    f'--weights={name}=PATH'
  )


def digest(path: pathlib.Path) -> str:
  """The first 8 digits of a file's SHA-256."""
  status = path.stat()
  return _digest(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _digest(path: pathlib.Path, size: int, changed: int) -> str:
  with path.open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()[:8]
