"""Features in one HDF5 file: a data set per video, or a table of all videos and a list of ids."""

import contextlib
import pathlib
import re
from collections.abc import Callable, Iterator

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.decode import text_of
from vidcap_jax.features.formats.reader import Arrays, FeatureReader, group, pick

H5_SUFFIXES = ('.h5', '.hdf5', '.hdf')
TABLE_IDS = ('ids', 'video_ids', 'names', 'keys')  # data sets that hold the ids of a table's rows


class H5Reader(FeatureReader):
  """Reads a file with a data set per video, at its root or in groups (``train/ID``, ``ID/image``).

  If a data set ``ids`` at the root names none of the other data sets, they are tables with a row
  per video; they also are if the id of the first row is given.
  """

  def __init__(self, stream: str, path: pathlib.Path, key: str | None, first: str | None = None):
    """Opens a file; ``first`` is the id of the first row of a table without ids."""
    super().__init__(stream, path, key)
    import h5py  # only for such files

    try:
      self._file = h5py.File(path, 'r')
      paths = list(_data_sets(self._file))
      ids = next((name for name in TABLE_IDS if name in paths), None)
      self._rows = self._rows_of(ids) if ids else None
      if first is not None and ids is None:
        self._rows = self._counted_rows(paths, first)
      elif self._rows and self._rows.keys() & set(paths):
        self._rows = None  # it just lists the data sets
    except DataError as error:
      raise DataError(f'stream {stream!r}: {path}: {error}') from None
    except Exception as error:  # OSError or RuntimeError, depending on the damage
      why = str(error).splitlines()[0] if str(error) else type(error).__name__
      raise DataError(f'stream {stream!r}: {path}: cannot be read as HDF5: {why}') from None
    if not paths:
      raise DataError(f'stream {stream!r}: {path}: no data set in it')
    self._tables = [name for name in paths if name != ids and '/' not in name]
    self._videos = {} if self._rows else group(paths, key, stream)

  def _counted_rows(self, paths: list[str], first: str) -> dict[str, int]:
    """Row by id of a table without ids, counting up from ``first``."""
    number = re.fullmatch(r'(.*?)([0-9]+)', first)
    if number is None:
      raise DataError(f'--rows={self.stream}={first}: an id that ends with a number is needed')
    tables = [path for path in paths if '/' not in path]
    if not tables:
      raise DataError('no table in it')
    name = pick(tables, self.key, self.stream)
    prefix, digits = number.groups()
    shape = self._file[name].shape
    if not shape:
      raise DataError(f'{name!r} is a single number, no table')
    width = len(digits) if digits.startswith('0') else 0
    return {f'{prefix}{int(digits) + row:0{width}d}': row for row in range(shape[0])}

  def _rows_of(self, ids: str) -> dict[str, int]:
    """Row by id; ids may be bytes, strings or whole numbers."""
    values = self._file[ids][()]
    if values.ndim != 1 or values.dtype.kind not in 'iuSUO':
      raise DataError(f'{ids!r}: expected a list of ids, not {values.dtype} {values.shape}')
    rows: dict[str, int] = {}
    for row, value in enumerate(values.tolist()):
      if rows.setdefault(text_of(value), row) != row:
        raise DataError(f'{ids!r}: the id {text_of(value)!r} occurs twice')
    return rows

  @property
  def ids(self):
    return self._videos.keys() if self._rows is None else self._rows.keys()

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    if self._rows is None:
      yield {leaf: self._whole(path) for leaf, path in self._videos[name].items()}
    else:
      yield {table: self._row(table, self._rows[name]) for table in self._tables}

  def _whole(self, path: str) -> Callable[[], np.ndarray]:
    return lambda: np.asarray(self._file[path][()])

  def _row(self, table: str, row: int) -> Callable[[], np.ndarray]:
    def read() -> np.ndarray:
      rows, ids = self._file[table], len(self.ids)
      if rows.shape[:1] != (ids,):
        raise DataError(f'{table!r} has shape {rows.shape}, but there are {ids} ids')
      return np.asarray(rows[row])

    return read


def _data_sets(parent, prefix: str = '', ancestors: tuple = ()) -> Iterator[str]:
  """Paths of all data sets below a group; links are followed unless they form a cycle."""
  import h5py

  info = h5py.h5o.get_info(parent.id)
  ancestors = (*ancestors, (info.fileno, info.addr))
  for name in parent:
    try:  # only the class, without reading the contents
      kind = parent.get(name, getclass=True)
    except Exception:  # a broken link; reading it reports the error
      kind = h5py.Dataset
    if kind is h5py.Dataset:
      yield prefix + name
    elif kind is h5py.Group:
      inner = parent[name]
      info = h5py.h5o.get_info(inner.id)
      if (info.fileno, info.addr) not in ancestors:
        yield from _data_sets(inner, f'{prefix}{name}/', ancestors)
