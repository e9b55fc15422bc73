"""Text files that a run leaves, on disks or wherever etils' epath writes, e.g. gs://BUCKET."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from typing import Any

from etils import epath

from vidcap_jax.errors import UserError

# What the user can mend: no room, and folders that can't be written to or made.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def is_local(path: epath.PathLike) -> bool:
  """Whether it is on a mounted disk, and not in an object store."""
  return '://' not in os.fspath(path)


def write_text(path: epath.PathLike, text: str) -> None:
  """All of it or, if this process is killed or the disk is full, what was there before."""
  path = epath.Path(path)
  if not is_local(path):  # an object is there once it is whole
    path.write_text(text, encoding='utf-8')
    return
  partial = path.with_suffix('.partial')
  partial.write_text(text, encoding='utf-8')
  partial.replace(path)


def write_json(path: epath.PathLike, data: Any, ensure_ascii: bool = True) -> None:
  """As ``write_text``."""
  write_text(path, json.dumps(data, indent=1, ensure_ascii=ensure_ascii) + '\n')


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
  """Tells of a full disk and of folders that can't be written to as of what the user can mend.

  Raises:
    UserError: for such an OSError inside.
  """
  try:
    yield
  except OSError as error:
    if error.errno in _NO_ROOM:
      advice = 'make room'
    elif error.errno in _NOT_OURS:
      advice = 'make the folder writable, or use another --workdir'
    else:
      raise
    raise UserError(f'{error}; {advice}, and the same command goes on from where it was') from error
