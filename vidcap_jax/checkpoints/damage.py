"""Whether what could not be read is damaged, or something else kept it from being read.

Too many open files, a disk that does not answer, missing rights: they come and go, and what is
stored is as good as before. Only what is damaged may be passed over.
"""

import contextlib
import os
import pathlib
import re
from collections.abc import Iterator

from etils import epath

from vidcap_jax.files import is_local

# Of the system's errors those that speak of what is stored: something is missing or misplaced.
_OF_CONTENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# What TensorStore's errors begin with if they came of the system.
_OF_SYSTEM = re.compile(
  '(ABORTED|CANCELLED|DEADLINE_EXCEEDED|INTERNAL|PERMISSION_DENIED|RESOURCE_EXHAUSTED|'
  'UNAUTHENTICATED|UNAVAILABLE|UNKNOWN): '
)


def other_cause(error: BaseException, folder: epath.Path) -> str:
  """What other than damage kept a folder from being read; '' if that can't be seen.

  Args:
    error: what reading it raised.
    folder: on a disk all files in it are read, to see whether they can be.
  """
  for one in _chain(error):
    if isinstance(one, MemoryError):
      return 'out of memory'
    of_system = isinstance(one, OSError) and not isinstance(one, _OF_CONTENT)
    if of_system or _OF_SYSTEM.match(str(one)):
      # TensorStore adds its settings, and tells where it was before it tells what was wrong.
      reason = re.split(r' \[\w+(?:\[\d+\])?=', str(one))[0]
      return reason if len(reason) < 200 else f'… {reason[-200:]}'
  return _kept_from_us(folder) if is_local(folder) else ''


def _chain(error: BaseException | None) -> Iterator[BaseException]:
  while error:
    yield error
    error = error.__cause__ or error.__context__


def _kept_from_us(folder: epath.Path) -> str:
  """Why a file below a folder can't be read. Libraries ask whether files exist, and are told that
  they do not where nobody could look."""
  try:
    for at, _, names in os.walk(folder, onerror=_raise):
      for name in names:
        with contextlib.suppress(*_OF_CONTENT), pathlib.Path(at, name).open('rb') as file:
          while file.read(2**24):
            pass
  except _OF_CONTENT:
    return ''
  except OSError as error:
    return str(error)
  return ''


def _raise(error: OSError) -> None:
  raise error
