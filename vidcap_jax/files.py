"""Reads and writes the text files of a run, on disks or object stores (e.g. gs://BUCKET)."""

import contextlib
import errno
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeVar

from etils import epath

from vidcap_jax.errors import DataError, UserError

PathT = TypeVar('PathT', bound=pathlib.Path)

LOCK = '.lock'  # file in a workdir that is locked while a process trains there

# Errors that the user can fix: no space, and folders that can't be created or written to.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


def is_local(path: epath.PathLike) -> bool:
  """Whether a path is on a mounted disk, not in an object store."""
  return '://' not in os.fspath(path)


def absolute(path: epath.PathLike) -> epath.Path:
  """The path independent of the working directory; unchanged if it is in an object store."""
  path = epath.Path(path)
  return path.absolute() if is_local(path) else path


def write_text(path: epath.PathLike, text: str) -> None:
  """Replaces a file atomically: a killed process or a full disk leaves the old contents.

  Links, pipes and devices such as /dev/stdout are written to, and stay what they are.
  """
  path = epath.Path(path)
  with named(path):
    # Object stores write atomically.
    if not is_local(path) or os.path.islink(path) or _is_special(path):
      path.write_text(text, encoding='utf-8')
      return
    partial = partial_path(path)
    partial.write_text(text, encoding='utf-8')
    partial.replace(path)


def _is_special(path: epath.PathLike) -> bool:
  """Whether it is a pipe or a device. (epath takes them for files.)"""
  return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def partial_path(path: PathT) -> PathT:
  """Where to write what replaces a local path once it is complete: hidden, so no file of a user."""
  return path.with_name(f'.{path.name}.partial')


def write_json(path: epath.PathLike, data: Any, ensure_ascii: bool = True) -> None:
  """Writes JSON with ``write_text``."""
  write_text(path, json.dumps(data, indent=1, ensure_ascii=ensure_ascii) + '\n')


def read_json(path: epath.PathLike) -> Any:
  """Reads what ``write_json`` wrote.

  Raises:
    DataError: not JSON.
  """
  try:
    return json.loads(epath.Path(path).read_text(encoding='utf-8'))
  except ValueError as error:
    raise DataError(
      f'{path}: damaged, not JSON ({error}); restore it from a copy, or make it anew'
    ) from None


def wait_for(path: epath.PathLike, seconds: float = 90.0) -> None:
  """Waits for a file that another machine has written, which may appear late on a shared disk.

  Raises:
    UserError: it does not appear: the folder is not shared.
  """
  deadline = time.monotonic() + seconds
  while not epath.Path(path).is_file():
    if time.monotonic() > deadline:
      raise UserError(
        f'{path}: process 0 wrote it, but this machine does not see it: --workdir must be the same '
        'folder on all machines; use a shared one'
      )
    time.sleep(1.0)


def check_output(flag: str, path: epath.PathLike, folder: bool = False) -> None:
  """Checks that a file, or files in a folder, can be written; call it before the work starts.

  Leaves no files behind. Paths in object stores are not checked.

  Args:
    flag: the flag with the path, for the message.
    path: a file, or with ``folder`` a folder, which need not exist.

  Raises:
    UserError: the path is empty or can't be written; names flag and path.
  """
  if not os.fspath(path):  # as of an unset shell variable; pathlib takes it for the current folder
    raise UserError(f'{flag}=: an empty path; give a {"folder" if folder else "file"}')
  if not is_local(path):
    return
  path = place = pathlib.Path(path)
  try:
    if not folder and path.exists():
      if not _is_special(path):  # a pipe would wait here for its reader
        path.open('ab').close()
      return
    above = (path.absolute(), *path.absolute().parents) if folder else (path.parent,)
    place = next((each for each in above if each.exists()), path.parent)
    with tempfile.TemporaryFile(dir=place):
      pass
  except OSError as error:
    raise UserError(
      f'{flag}={path}: cannot write to {place} ({error.strerror}); give another path'
    ) from None


def check_input(
  flag: str, path: epath.PathLike, wanted: str, kind: Literal['file', 'folder'] | None = None
) -> None:
  """Checks that a path to read is not empty, as of an unset shell variable, and what it names.

  Args:
    flag: the flag with the path, for the message.
    path: the path; pathlib would take an empty one for the current folder.
    wanted: what the path names, for the message.
    kind: what must be on the disk; None: not checked.

  Raises:
    UserError: it is empty, or there is no such file or folder.
  """
  name = os.fspath(path)
  if not name:
    raise UserError(f'{flag}=: an empty path; give {wanted}')
  if kind is None or (os.path.isdir(name) if kind == 'folder' else _is_file(name)):
    return
  if os.path.exists(name):
    other = 'file' if kind == 'folder' else 'folder'
    raise UserError(f'{flag}={name}: a {other}, not a {kind}; give {wanted}')
  home = f' (shells do not expand ~ after {flag}=; write $HOME)' if name.startswith('~') else ''
  raise UserError(f'{flag}={name}: no such {kind}{home}; give {wanted}')


def _is_file(name: str) -> bool:
  """Whether it is a file, or a pipe as of ``<(command)``."""
  return os.path.exists(name) and not os.path.isdir(name)


@contextlib.contextmanager
def named(path: epath.PathLike) -> Iterator[None]:
  """Sets the file name of an OSError that has none, as those of a full disk."""
  try:
    yield
  except OSError as error:
    if error.filename is None:
      error.filename = os.fspath(path)
    raise


@contextlib.contextmanager
def locked(folder: epath.PathLike) -> Iterator[None]:
  """Locks a folder, which is created if missing; does nothing in an object store.

  The lock ends with the process. After a user's error, folders that were created here are removed
  if they hold nothing else.

  Raises:
    UserError: another process holds the lock.
  """
  if not is_local(folder):
    epath.Path(folder).mkdir(parents=True, exist_ok=True)
    yield
    return
  path = pathlib.Path(folder)
  created = [each for each in (path, *path.parents) if not each.exists()]
  path.mkdir(parents=True, exist_ok=True)
  import fcntl  # does not exist on Windows

  with (path / LOCK).open('a') as file:
    try:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
      raise UserError(
        f'{folder}: another process is training there; wait for it or stop it, or use another '
        '--workdir'
      ) from None
    except OSError:  # the disk has no locks
      pass
    with _removed_if_unused(path, created):
      yield


@contextlib.contextmanager
def _removed_if_unused(path: pathlib.Path, created: Sequence[pathlib.Path]) -> Iterator[None]:
  """Removes the created folders after a user's error, if ``path`` holds only the lock."""
  try:
    yield
  except UserError:
    if created and [each.name for each in path.iterdir()] == [LOCK]:
      (path / LOCK).unlink()
      with contextlib.suppress(OSError):  # another process begins there
        for each in created:
          each.rmdir()
    raise


@contextlib.contextmanager
def disk_errors(flag: str | None = '--workdir') -> Iterator[None]:
  """Turns errors of a full disk or a folder without write access into UserError.

  Args:
    flag: the flag for the output path, None if there is none; a run with --workdir can resume.

  Raises:
    UserError: in place of such an OSError.
  """
  try:
    yield
  except OSError as error:
    if error.errno in _NO_SPACE:
      advice = 'free some space'
    elif error.errno in _NOT_WRITABLE:
      advice = 'make the folder writable' + (f', or use another {flag}' if flag else '')
    else:
      raise
    if flag == '--workdir':
      advice += ', and run the same command again to resume'
    raise UserError(f'{error}; {advice}') from error
