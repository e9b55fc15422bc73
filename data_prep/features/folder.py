"""Features as one .npy or .npz file per video, named by the video's id."""

import os
import pathlib
import zipfile

import numpy as np

from vidcap_jax.data.schema import DataError

SUFFIXES = ('.npy', '.npz')


class FolderReader:
  """Reads ``FOLDER/ID.npy`` and ``FOLDER/ID.npz`` (with one array, or one named by the stream)."""

  def __init__(self, stream: str, path: pathlib.Path):
    self.stream = stream
    self.path = path
    self._files: dict[str, str] = {}
    for entry in sorted(os.listdir(path)):
      name, suffix = os.path.splitext(entry)
      if suffix.lower() not in SUFFIXES:
        continue
      if name in self._files:
        raise DataError(
          f'stream {stream!r}: {path}: both {self._files[name]} and {entry} are there; remove one'
        )
      self._files[name] = entry
    if not self._files:
      raise DataError(f'stream {stream!r}: {path}: no .npy or .npz file in this folder')

  @property
  def ids(self):
    return self._files.keys()

  def where(self, name: str) -> str:
    return str(self.path / self._files[name])

  def fingerprint(self, name: str) -> str:
    status = (self.path / self._files[name]).stat()
    return f'{self._files[name]}:{status.st_size}:{status.st_mtime_ns}'

  def read(self, name: str) -> np.ndarray:
    path = self.path / self._files[name]
    try:
      if not path.stat().st_size:
        raise DataError(f'{path}: empty file (0 bytes)')
      with path.open('rb') as file:
        start = file.read(6)
      # The content decides, not the name: np.savez adds no suffix of its own to an open file.
      if start[:4] == b'PK\x03\x04':
        return self._from_npz(path)
      if start != b'\x93NUMPY':
        raise DataError(f'{path}: not a NumPy file')
      return np.load(path, allow_pickle=False)
    except DataError:
      raise
    # Damaged files raise what they like (ValueError, EOFError, zlib.error, MemoryError …).
    except Exception as error:
      raise DataError(f'{path}: cannot be read: {_reason(error)}') from None

  def _from_npz(self, path: pathlib.Path) -> np.ndarray:
    with np.load(path, allow_pickle=False) as arrays:
      names = arrays.files
      chosen = self.stream if self.stream in names else names[0] if len(names) == 1 else None
      if chosen is None:
        raise DataError(
          f'{path}: holds {len(names)} arrays ({", ".join(names[:5])}), none of them '
          f'named {self.stream!r}'
        )
      return arrays[chosen]


def _reason(error: Exception) -> str:
  text = str(error).splitlines()[0] if str(error) else type(error).__name__
  if 'allow_pickle' in text:
    return 'it holds Python objects, not numbers'
  if isinstance(error, (EOFError, zipfile.BadZipFile)) or 'reshape' in text or 'EOF' in text:
    return f'truncated or damaged ({text})'
  return text
