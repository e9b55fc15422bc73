"""Features as one HDF5 file with a data set per video."""

import pathlib

import numpy as np

from vidcap_jax.data.schema import DataError

H5_SUFFIXES = ('.h5', '.hdf5', '.hdf')


class H5Reader:
  """Reads the data sets at the root of one file, named by the videos' ids."""

  def __init__(self, stream: str, path: pathlib.Path):
    import h5py  # Only where such a file is given.

    self.stream = stream
    self.path = path
    try:
      self._file = h5py.File(path, 'r')
      names = list(self._file)
    except Exception as error:  # OSError and RuntimeError, by the kind of damage.
      why = str(error).splitlines()[0]
      raise DataError(f'stream {stream!r}: {path}: cannot be read as HDF5: {why}') from None
    # Groups are kept out by their class, without reading what is in them.
    self._names = {n: None for n in names if self._file.get(n, getclass=True) is h5py.Dataset}
    if not self._names:
      groups = f' (groups: {", ".join(names[:3])})' if names else ''
      raise DataError(f'stream {stream!r}: {path}: no data set at its root{groups}')

  @property
  def ids(self):
    return self._names.keys()

  def where(self, name: str) -> str:
    return f'{self.path}[{name!r}]'

  def fingerprint(self, name: str) -> str:
    status = self.path.stat()
    return f'{self.path.name}:{name}:{status.st_size}:{status.st_mtime_ns}'

  def read(self, name: str) -> np.ndarray:
    try:
      return np.asarray(self._file[name][()])
    except Exception as error:  # OSError, KeyError or RuntimeError, by the kind of damage.
      why = str(error).splitlines()[0] if str(error) else type(error).__name__
      raise DataError(f'{self.where(name)}: cannot be read: {why}') from None
