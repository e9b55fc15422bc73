"""Errors that the user can fix: the message says what is wrong, where, and what to do.

Commands print them without a traceback and exit with code 1; other exceptions are bugs.
"""

import tempfile
from collections.abc import Iterable, Sequence

SHOWN = 3  # items of a list in a message; a file has all of them


class UserError(ValueError):
  """Base class of these errors.

  Attributes:
    items: the whole list of which the message shows the first few.

  Example:
    >>> import vidcap_jax as vc
    >>> try:
    ...   captioner = vc.load('runs/gone')
    ... except vc.UserError as error:
    ...   print(error)
    checkpoint=runs/gone: no such folder
  """

  def __init__(self, message: str = '', items: Iterable[str] = ()):
    super().__init__(message)
    self.items = tuple(items)


class ConfigError(UserError):
  """A setting that is unknown or does not fit."""


class DataError(UserError):
  """Bad input data: a file, an array or a caption that can't be used."""


class ModelError(UserError):
  """A model of the user's own that breaks the contracts of ``models/captioner.py``."""


class VideoError(UserError):
  """A video without a single frame; the message names the file and the reason."""


def first_few(items: Sequence, separator: str = ', ') -> str:
  """The first ``SHOWN`` of a list, for messages, and how many more there are."""
  more = f'{separator}and {len(items) - SHOWN} more' if len(items) > SHOWN else ''
  return separator.join(map(str, items[:SHOWN])) + more


def error_text(error: Exception) -> str:
  """What a command prints for an error; writes a long list to a file, which the text names."""
  items = getattr(error, 'items', ())
  if len(items) <= SHOWN:
    return str(error)
  try:
    with tempfile.NamedTemporaryFile(
      'w', prefix='vidcap_jax_', suffix='.txt', delete=False, encoding='utf-8'
    ) as file:
      file.writelines(f'{item}\n' for item in items)
  except OSError:  # a full disk must not hide the error
    return str(error)
  return f'{error}\nall {len(items)} are listed in {file.name}'
