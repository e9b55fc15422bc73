"""Features in an LMDB store: id -> the bytes of a .npy, .npz, pickle or PyTorch file."""

import contextlib
import io
import pathlib
import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.decode import decode, text_of
from vidcap_jax.features.formats.reader import Arrays, FeatureReader

DATA_FILE = 'data.mdb'
LMDB_SUFFIXES = ('.lmdb', '.mdb')

# A process may open a store only once, but two streams may be in one store.
_stores: weakref.WeakValueDictionary[pathlib.Path, Any] = weakref.WeakValueDictionary()


def _open(lmdb, path: pathlib.Path):
  path = path.resolve()
  store = _stores.get(path)
  if store is None:
    store = _stores[path] = lmdb.open(
      str(path), subdir=path.is_dir(), readonly=True, lock=False, readahead=False
    )
  return store


def _check_pages(path: pathlib.Path) -> None:
  """Reads all pages in another process, because a damaged page may crash the process."""
  walk = subprocess.run(
    [sys.executable, str(pathlib.Path(__file__).with_name('lmdb_walk.py')), str(path)],
    capture_output=True,
    text=True,
    check=False,
  )
  if walk.returncode:
    why = walk.stderr.strip().splitlines()
    raise DataError(f'damaged page ({why[-1] if why else f"exit code {walk.returncode}"})')


class LmdbReader(FeatureReader):
  """Reads a store's folder, or its one file. Needs the package lmdb."""

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    super().__init__(stream, path, key)
    try:
      import lmdb
    except ModuleNotFoundError:
      raise DataError(
        f"stream {stream!r}: {path}: reading LMDB needs a package: pip install 'vidcap_jax[lmdb]'"
      ) from None
    self._data = path / DATA_FILE if path.is_dir() else path
    where = f'stream {stream!r}: {self._data}'
    try:
      size = self._data.stat().st_size
      self._store = _open(lmdb, path)
      # Pages are mapped into memory: reading a missing one would crash the process.
      needed = (self._store.info()['last_pgno'] + 1) * self._store.stat()['psize']
      if size < needed:
        raise DataError(f'truncated, {size} of {needed} bytes')
      _check_pages(path)
      with self._store.begin() as transaction:
        keys = list(transaction.cursor().iternext(keys=True, values=False))
      # Keys such as lmdbdict's __keys__ hold the store's own data, not features.
      self._keys = {text_of(k): k for k in keys if not k.startswith(b'__')}
    except DataError as error:
      raise DataError(f'{where}: {error}') from None
    except Exception as error:  # lmdb.Error, OSError …
      raise DataError(f'{where}: cannot be read as LMDB: {error}') from None
    if not self._keys:
      raise DataError(f'{where}: an empty store')

  @property
  def ids(self):
    return self._keys.keys()

  def where(self, name: str) -> str:
    return f'{self._data}[{name!r}]'

  def fingerprint(self, name: str) -> str:
    status = self._data.stat()
    return f'{name}:{status.st_size}:{status.st_mtime_ns}'

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    with self._store.begin(buffers=False) as transaction:
      value = transaction.get(self._keys[name])
    yield decode(io.BytesIO(value))
