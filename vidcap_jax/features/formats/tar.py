"""Features in WebDataset tar files: members ``ID.npy``, or ``ID.image.npy``, ``ID.boxes.npy`` …"""

import contextlib
import io
import pathlib
import tarfile
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.decode import SUFFIXES, decode
from vidcap_jax.features.formats.reader import SCORES, Arrays, FeatureReader

TAR_SUFFIX = '.tar'
_BLOCK = tarfile.BLOCKSIZE


class _Member(NamedTuple):
  """A member of a tar file, and where its bytes are."""

  file: pathlib.Path
  name: str
  offset: int
  size: int


class TarReader(FeatureReader):
  """Reads one tar file, or all in a folder. An id is a member's path up to the first dot."""

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    super().__init__(stream, path, key)
    self._videos: dict[str, dict[str, _Member]] = {}
    files = sorted(path.glob('*' + TAR_SUFFIX)) if path.is_dir() else [path]
    for file in files:
      for member in _members(file, stream):
        self._add(member)
    if not self._videos:
      raise DataError(f'stream {stream!r}: {path}: no member {", ".join(SUFFIXES)}')

  def _add(self, member: _Member) -> None:
    folder, slash, name = member.name.rpartition('/')
    video, _, extension = name.partition('.')
    array, _, suffix = extension.rpartition('.')
    if '.' + suffix.lower() not in SUFFIXES:
      return
    arrays = self._videos.setdefault(folder + slash + video, {})
    if array in arrays:
      first = arrays[array]
      raise DataError(
        f'stream {self.stream!r}: {member.file}: {member.name} occurs twice, or as well as '
        f'{first.name} in {first.file}; remove one'
      )
    arrays[array] = member

  @property
  def ids(self):
    return self._videos.keys()

  def where(self, name: str) -> str:
    first = next(iter(self._videos[name].values()))
    return f'{first.file}[{name!r}]'

  def fingerprint(self, name: str) -> str:
    parts = []
    for member in self._videos[name].values():
      parts.append(f'{member.name}:{member.offset}:{member.file.stat().st_mtime_ns}')
    return ' '.join(parts)

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    members = self._videos[name]
    wanted = self.key or self.stream
    if wanted in members:  # of the other arrays, only scores are used
      members = {array: m for array, m in members.items() if array in (wanted, *SCORES)}
    arrays: dict[str, Callable[[], np.ndarray]] = {}
    for array, member in members.items():
      inside = decode(_content(member))
      for inner, read in inside.items():
        arrays[array if len(inside) == 1 else '/'.join(filter(None, (array, inner)))] = read
    yield arrays


def _content(member: _Member) -> io.BytesIO:
  with member.file.open('rb') as file:
    file.seek(member.offset)
    data = file.read(member.size)
  if len(data) < member.size:
    raise DataError(f'{member.name}: truncated, {len(data)} of {member.size} bytes')
  return io.BytesIO(data)


def _members(path: pathlib.Path, stream: str) -> Iterator[_Member]:
  """Lists the files in an archive, in its order; nothing is unpacked.

  Raises:
    DataError: not a tar file, a compressed or damaged one, or one without an end.
  """
  where = f'stream {stream!r}: {path}'
  try:
    with tarfile.open(path, 'r:') as archive:
      for member in archive:
        if member.issparse():
          raise DataError(f'{where}: {member.name}: a sparse file; write it as a plain one')
        if member.isfile():
          yield _Member(path, member.name, member.offset_data, member.size)
      end = archive.offset
  except DataError:
    raise
  except Exception as error:  # ReadError, EOFError, ValueError …, depending on the damage
    raise DataError(
      f'{where}: not a tar file, or damaged or compressed ({error}); unpack a compressed one'
    ) from None
  # tarfile doesn't report a missing end, or data after it.
  with path.open('rb') as file:
    file.seek(end)
    if file.read(_BLOCK) != bytes(_BLOCK):
      raise DataError(f'{where}: truncated or damaged: no member and no end mark at byte {end}')
    while data := file.read(2**20):
      if data.strip(b'\0'):
        raise DataError(f'{where}: more data after the end of the archive; were several joined?')
