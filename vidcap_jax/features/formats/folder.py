"""Features in a folder with one file per video, named by the video's id."""

import contextlib
import os
import pathlib
from collections.abc import Iterator

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.decode import SUFFIXES, decode
from vidcap_jax.features.formats.reader import Arrays, FeatureReader


class FolderReader(FeatureReader):
  """Reads ``FOLDER/ID.npy``, ``.npz``, ``.pkl`` or ``.pth``.

  In subfolders, the name of ``FOLDER/A/ID.npy`` is ``A/ID``.
  """

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    """Opens a folder; a single file is read as a folder with just that file."""
    single_file = path.is_file()
    super().__init__(stream, path.parent if single_file else path, key)
    self._files: dict[str, str] = {}
    for file in [path.name] if single_file else sorted(files_below(path)):
      name, suffix = os.path.splitext(file)
      if suffix.lower() not in SUFFIXES:
        continue
      if name in self._files:
        raise DataError(
          f'stream {stream!r}: {path}: both {self._files[name]} and {file} are there; remove one'
        )
      self._files[name] = file
    if not self._files:
      raise DataError(f'stream {stream!r}: {path}: no file {", ".join(SUFFIXES)} in this folder')

  @property
  def ids(self):
    return self._files.keys()

  def where(self, name: str) -> str:
    return str(self.path / self._files[name])

  def fingerprint(self, name: str) -> str:
    status = (self.path / self._files[name]).stat()
    return f'{self._files[name]}:{status.st_size}:{status.st_mtime_ns}'

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    with (self.path / self._files[name]).open('rb') as file:
      yield decode(file)


def files_below(path: pathlib.Path) -> Iterator[str]:
  """Files in a folder and its subfolders, relative to it; links that form a cycle are skipped."""
  visited = set()
  for folder, folders, files in os.walk(path, followlinks=True):
    visited.add(os.path.realpath(folder))
    folders[:] = [f for f in folders if os.path.realpath(os.path.join(folder, f)) not in visited]
    for file in files:
      yield (pathlib.Path(folder) / file).relative_to(path).as_posix()
