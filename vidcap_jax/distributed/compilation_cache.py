"""The folder in which JAX keeps compiled programs between runs.

JAX's key of a program holds the program, its options, the versions of jaxlib and of the backend,
the devices, and for CPUs their instruction set. So a folder may be shared by versions and machines.
JAX removes nothing from it, so the oldest programs of the default folder are removed here, and
those that a kill or a full disk left half written, which JAX would neither read nor replace.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import zlib

import jax

from vidcap_jax.distributed.mesh import is_main
from vidcap_jax.errors import ConfigError
from vidcap_jax.files import is_local

AUTO = 'auto'
# Reading a program back takes 10 to 20 ms: one that compiles faster is not worth a file. JAX's
# default is 1 s; a start has many programs between the two.
MIN_COMPILE_SECONDS = 0.3
MAX_BYTES = 4 * 2**30  # of the default folder
_CHECKED = 'checked'  # a file that is as old as the last search for half-written programs
_ZSTANDARD = b'\x28\xb5\x2f\xfd'  # files that are not packed by zlib begin with it


def default_folder() -> pathlib.Path:
  """The folder in the user's cache folder."""
  cache = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
  return pathlib.Path(cache, 'vidcap_jax', 'programs').expanduser()


def use(setting: str) -> None:
  """Makes this process keep compiled programs, and read those of earlier ones.

  Args:
    setting: ``runtime.compilation_cache``: 'auto' is the default folder, or the one that JAX's own
      setting names (JAX_COMPILATION_CACHE_DIR). Without write access to it, a line is printed and
      programs are not kept. '' leaves JAX's setting; anything else is a folder.

  Raises:
    ConfigError: a folder that the setting names can't be made.
  """
  if setting == AUTO:
    if not jax.config.values['jax_compilation_cache_dir'] and _prepare(default_folder()):
      _keep_in(str(default_folder()))
  elif setting:
    try:
      if is_local(setting):
        pathlib.Path(setting).mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise ConfigError(f'config.runtime.compilation_cache={setting}: {error.strerror}') from None
    _keep_in(setting)


def _keep_in(folder: str) -> None:
  jax.config.update('jax_compilation_cache_dir', folder)
  if 'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS' not in os.environ:
    jax.config.update('jax_persistent_cache_min_compile_time_secs', MIN_COMPILE_SECONDS)


def _prepare(folder: pathlib.Path) -> bool:
  """Makes the default folder, removes the oldest programs; False if it can't be written."""
  try:
    # Programs are code: nobody else may write them.
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
      pass
  except OSError as error:
    if is_main():
      print(
        f'compiled programs are not kept for later runs: {folder}: {error.strerror} '
        '(config.runtime.compilation_cache names another folder)',
        file=sys.stderr,
        flush=True,
      )
    return False
  if is_main():
    _remove_oldest(folder, MAX_BYTES)
    _remove_half_written(folder)  # second, as it reads files, which makes them look used
  return True


def _remove_half_written(folder: pathlib.Path) -> None:
  """Removes the programs that cannot be unpacked, of those written since the last call."""
  checked = folder / _CHECKED
  since = checked.stat().st_mtime if checked.is_file() else 0.0
  for path in folder.glob('*-cache'):
    with contextlib.suppress(OSError):  # another process removes files, too
      if path.stat().st_mtime >= since and not _can_be_unpacked(path.read_bytes()):
        path.unlink()
  with contextlib.suppress(OSError):
    checked.touch()


def _can_be_unpacked(data: bytes) -> bool:
  try:
    if data.startswith(_ZSTANDARD):
      import zstandard  # JAX uses it where it is installed

      zstandard.ZstdDecompressor().decompress(data)
    else:
      zlib.decompress(data)
  except ImportError:
    return True  # it cannot be checked
  except Exception:  # zstandard's own
    return False
  return True


def _remove_oldest(folder: pathlib.Path, most: int) -> None:
  """Removes the files that were used longest ago while a folder holds more than ``most`` bytes."""
  files = []
  for path in folder.glob('*-cache'):
    with contextlib.suppress(FileNotFoundError):  # another process removes files, too
      status = path.stat()
      files.append((max(status.st_atime, status.st_mtime), status.st_size, path))
  total = sum(size for _, size, _ in files)
  for _, size, path in sorted(files):
    if total <= most:
      return
    with contextlib.suppress(OSError):
      path.unlink()
    total -= size
