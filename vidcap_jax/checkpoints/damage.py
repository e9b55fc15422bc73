"""Whether a checkpoint that can't be read is damaged, or something else prevents reading it.

Too many open files, a disk that doesn't respond and missing permissions are temporary, and the
stored data are intact. Only a damaged checkpoint may be skipped.
"""

import contextlib
import os
import pathlib
import re
from collections.abc import Iterator

from etils import epath

from vidcap_jax.files import is_local

# The errors of the operating system that concern what is stored: a file is missing or misplaced.
_CONTENT_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
# How TensorStore's messages begin if the error comes from the operating system.
_SYSTEM_ERROR = re.compile(
  '(ABORTED|CANCELLED|DEADLINE_EXCEEDED|INTERNAL|PERMISSION_DENIED|RESOURCE_EXHAUSTED|'
  'UNAUTHENTICATED|UNAVAILABLE|UNKNOWN): '
)


def other_cause(error: BaseException, folder: epath.Path) -> str:
  """What other than damage prevents reading a folder; '' if no other cause is found.

  Args:
    error: raised when the folder was read.
    folder: if it is on a local disk, all files in it are read to see whether they can be.
  """
  for cause in _chain(error):
    if isinstance(cause, MemoryError):
      return 'out of memory'
    from_system = isinstance(cause, OSError) and not isinstance(cause, _CONTENT_ERRORS)
    if from_system or _SYSTEM_ERROR.match(str(cause)):
      # TensorStore appends its settings; the reason is at the end of what comes before them.
      reason = re.split(r' \[\w+(?:\[\d+\])?=', str(cause))[0]
      return reason if len(reason) < 200 else f'… {reason[-200:]}'
  return _read_error(folder) if is_local(folder) else ''


def _chain(error: BaseException | None) -> Iterator[BaseException]:
  while error:
    yield error
    error = error.__cause__ or error.__context__


def _read_error(folder: epath.Path) -> str:
  """The first error of the operating system when all files below a folder are read; '' for none.

  Libraries ask whether a file exists, and take one that can't be accessed for missing.
  """
  try:
    for parent, _, names in os.walk(folder, onerror=_raise):
      for name in names:
        _read_all(pathlib.Path(parent, name))
  except _CONTENT_ERRORS:
    return ''
  except OSError as error:
    return str(error)
  return ''


def _read_all(path: pathlib.Path) -> None:
  with contextlib.suppress(*_CONTENT_ERRORS), path.open('rb') as file:
    while file.read(2**24):
      pass


def _raise(error: OSError) -> None:
  raise error
