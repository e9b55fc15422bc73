"""Where the weights of networks are: files that users have, given by path or put in a folder.

A network's weights are the file given for it (``--weights=NAME=PATH``), otherwise ``NAME.pth`` or
NAME with any other ending in the cache folder: ``~/.cache/vidcap_jax/weights``, or what the
environment variable ``VIDCAP_JAX_WEIGHTS`` names.
"""

import functools
import hashlib
import os
import pathlib
from collections.abc import Mapping

from vidcap_jax.errors import UserError

VARIABLE = 'VIDCAP_JAX_WEIGHTS'

_given: dict[str, pathlib.Path] = {}


class WeightsError(UserError):
  """Weights that are not there; the message says what to fetch and where to put it."""


def folder() -> pathlib.Path:
  """The cache folder."""
  usual = pathlib.Path('~/.cache/vidcap_jax/weights').expanduser()
  return pathlib.Path(os.environ.get(VARIABLE) or usual)


def give(paths: Mapping[str, str | pathlib.Path]) -> None:
  """Names the weights files of networks, in place of those in the cache folder.

  Raises:
    WeightsError: no such file.
  """
  for name, path in paths.items():
    if not pathlib.Path(path).is_file():
      raise WeightsError(f'weights of {name}: {path}: no such file')
  _given.clear()
  _given.update({name: pathlib.Path(path).resolve() for name, path in paths.items()})


def given() -> dict[str, pathlib.Path]:
  """What ``give`` was given last."""
  return dict(_given)


def found(name: str) -> pathlib.Path | None:
  """The file given for a name, or there in the cache folder; None if there is none.

  Raises:
    WeightsError: several.
  """
  if name in _given:
    return _given[name]
  place, own = _place(name)
  paths = [path for path in sorted(place.glob('*')) if path.name.startswith(own) and path.is_file()]
  if len(paths) > 1:
    names = ', '.join(path.name for path in paths)
    raise WeightsError(f'weights of {name}: {place} holds {names}; keep one, or name it')
  return paths[0] if paths else None


def _place(name: str) -> tuple[pathlib.Path, str]:
  """Where in the cache folder its file would be, and how the file's name begins."""
  return (folder() / name).parent, name.rpartition('/')[2] + '.'


def find(name: str, fetch: str) -> pathlib.Path:
  """The weights file of a network.

  Args:
    name: of the network.
    fetch: what to fetch and from where, for the message.

  Raises:
    WeightsError: none there, or several.
  """
  path = found(name)
  if path is not None:
    return path
  place, own = _place(name)
  raise WeightsError(
    f'weights of {name}: no file {own}* in {place}. Fetch {fetch}, and put it there with its '
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
