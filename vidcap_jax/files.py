"""Text files that a run leaves, on disks or wherever etils' epath writes, e.g. gs://BUCKET."""

import contextlib
import errno
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from etils import epath

from vidcap_jax.errors import DataError, UserError

LOCK = '.lock'  # in a workdir, held while a process trains there

# What the user can mend: no room, and folders that can't be written to or made.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def is_local(path: epath.PathLike) -> bool:
  """Whether it is on a mounted disk, and not in an object store."""
  return '://' not in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
  """A path that holds in any working directory; one of an object store does."""
  path = epath.Path(path)
  return path.absolute() if is_local(path) else path


def write_text(path: epath.PathLike, text: str) -> None:
  """All of it or, if this process is killed or the disk is full, what was there before."""
  path = epath.Path(path)
  with named(path):
    if not is_local(path):  # an object is there once it is whole
      path.write_text(text, encoding='utf-8')
      return
    partial = path.with_suffix('.partial')
    partial.write_text(text, encoding='utf-8')
    partial.replace(path)


def write_json(path: epath.PathLike, data: Any, ensure_ascii: bool = True) -> None:
  """As ``write_text``."""
  write_text(path, json.dumps(data, indent=1, ensure_ascii=ensure_ascii) + '\n')


def read_json(path: epath.PathLike) -> Any:
  """What ``write_json`` wrote.

  Raises:
    DataError: it is no JSON.
  """
  try:
    return json.loads(epath.Path(path).read_text(encoding='utf-8'))
  except ValueError as error:
    raise DataError(
      f'{path}: damaged, no JSON ({error}); bring it back from a copy, or use another --workdir'
    ) from None


def wait_for(path: epath.PathLike, seconds: float = 90.0) -> None:
  """Returns once a file is there that another machine has written; disks may show it late.

  Raises:
    UserError: it does not come, as the folder is another one there.
  """
  deadline = time.monotonic() + seconds
  while not epath.Path(path).is_file():
    if time.monotonic() > deadline:
      raise UserError(
        f'{path}: process 0 has written it, but it is not here: --workdir is not the same folder '
        'on all machines; mount it on this one, or name one that they share'
      )
    time.sleep(1.0)


def check_output(flag: str, path: epath.PathLike, folder: bool = False) -> None:
  """Whether a file can be written, or files in a folder that may not be there yet.

  To be asked before the work whose results they are. Nothing is left there. An object store is not
  asked: it answers when it is written to.

  Args:
    flag: that names it.
    path: a file, or with ``folder`` a folder.

  Raises:
    UserError: it can't; names flag and path.
  """
  if not is_local(path):
    return
  path = place = pathlib.Path(path)
  try:
    if not folder and path.exists():
      path.open('ab').close()
      return
    above = (path.absolute(), *path.absolute().parents) if folder else (path.parent,)
    place = next((each for each in above if each.exists()), path.parent)
    with tempfile.TemporaryFile(dir=place):
      pass
  except OSError as error:
    raise UserError(
      f'{flag}={path}: cannot write to {place} ({error.strerror}); name another place'
    ) from None


@contextlib.contextmanager
def named(path: epath.PathLike) -> Iterator[None]:
  """Adds what is written to an OSError inside that tells of none: those of a full disk don't."""
  try:
    yield
  except OSError as error:
    if error.filename is None:
      error.filename = os.fspath(path)
    raise


@contextlib.contextmanager
def locked(folder: epath.PathLike) -> Iterator[None]:
  """Keeps others that ask for it out of a folder, which is made; not in an object store.

  The lock goes with the process, however it ends.

  Raises:
    UserError: another process has it.
  """
  epath.Path(folder).mkdir(parents=True, exist_ok=True)
  if not is_local(folder):
    yield
    return
  import fcntl  # not on Windows, where nothing else asks for it

  with pathlib.Path(folder, LOCK).open('a') as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise UserError(
        f'{folder}: another process is training there; wait for it or stop it, or use another '
        '--workdir'
      ) from None
    except OSError:  # a disk without locks
      pass
    yield


@contextlib.contextmanager
def disk_errors(flag: str | None = '--workdir') -> Iterator[None]:
  """Tells of a full disk and of folders that can't be written to as of what the user can mend.

  Args:
    flag: that names where results go, None if nowhere; what is in a --workdir is gone on from.

  Raises:
    UserError: for such an OSError inside.
  """
  try:
    yield
  except OSError as error:
    if error.errno in _NO_ROOM:
      advice = 'make room'
    elif error.errno in _NOT_OURS:
      advice = 'make the folder writable' + (f', or use another {flag}' if flag else '')
    else:
      raise
    if flag == '--workdir':
      advice += ', and the same command goes on from where it was'
    raise UserError(f'{error}; {advice}') from error
