"""The manifest of a data set folder: its feature streams, splits and vocabulary.

A data set folder contains ArrayRecord shards per split, TFDS metadata (so that
``tfds.builder_from_directory`` opens it) and one JSON file, the manifest, which this module
reads and writes. Model sizes follow from it, and checkpoints store the part of it that evaluation
and prediction need.
"""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping

from vidcap_jax.errors import DataError
from vidcap_jax.files import write_json

MANIFEST_NAME = 'manifest.json'
FORMAT_VERSION = 1

# Axes of one video's array, by kind. T is free everywhere, N is free for regions.
KINDS = {
  'vector': ('D',),
  'sequence': ('T', 'D'),
  'grid': ('T', 'rows', 'columns', 'D'),
  'regions': ('T', 'N', 'D'),
}


@dataclasses.dataclass(frozen=True)
class Stream:
  """One named feature stream.

  Attributes:
    name: as given in ``--features=NAME=DIR``; letters, digits and underscores.
    kind: a key of ``KINDS``.
    shape: one video's shape, ``None`` where an axis is free: ``(D,)``, ``(None, D)``,
      ``(None, rows, columns, D)`` or ``(None, None, D)``.
    dtype: of the stored arrays.
    longest: most frames (T) of any video; 1 for a vector.
    most_regions: most regions (N) of any frame; 0 unless kind is regions.
    extractor, version: the network that made the features, where known.
    sampling: how frames were chosen, where known, e.g. ``{'every': 32}``, ``{'uniform': 20}``.
    optional: whether a video may lack the stream (audio, say); it is then stored with T = 0.
    mean, std: per channel (D,), over the valid entries of the training split; empty when the data
      set has none.
  """

  name: str
  kind: str
  shape: tuple[int | None, ...]
  dtype: str = 'float16'
  longest: int = 1
  most_regions: int = 0
  extractor: str | None = None
  version: str | None = None
  sampling: Mapping | None = None
  optional: bool = False
  mean: tuple[float, ...] = ()
  std: tuple[float, ...] = ()

  def __post_init__(self):
    if self.kind not in KINDS:
      raise DataError(
        f'stream {self.name!r}: unknown kind {self.kind!r}; known: {", ".join(KINDS)}'
      )
    if len(self.shape) != len(KINDS[self.kind]):
      axes = ', '.join(KINDS[self.kind])
      raise DataError(f'stream {self.name!r}: a {self.kind} has axes ({axes}), got {self.shape}')
    if self.shape[-1] is None:
      raise DataError(f'stream {self.name!r}: the last axis (D) cannot be free, got {self.shape}')

  @property
  def channels(self) -> int:
    """D, the size of one feature vector."""
    size = self.shape[-1]
    assert size is not None  # __post_init__ has seen to it.
    return size

  @property
  def axes(self) -> str:
    """The shape for people, free axes by their letters: ``(T, N, 2048)``."""
    sizes = zip(KINDS[self.kind], self.shape, strict=True)
    return f'({", ".join(axis if size is None else str(size) for axis, size in sizes)})'


@dataclasses.dataclass(frozen=True)
class Shard:
  """One ArrayRecord file: its name, record count, SHA-256, and size (0: not known)."""

  file: str
  records: int
  sha256: str
  bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Split:
  """A split's shards and counts. ``captions`` is 0 for a split without references."""

  videos: int
  captions: int
  shards: tuple[Shard, ...]


@dataclasses.dataclass(frozen=True)
class Dropped:
  """A video that was left out of the data set, and why."""

  video_id: str
  split: str
  reason: str


@dataclasses.dataclass(frozen=True)
class Manifest:
  """The description of a data set folder: all of it but the records.

  ``vocabulary`` is ``Vocabulary.to_dict()`` or None (a data set built without a training split and
  without a given vocabulary). ``versions`` names the packages that wrote the folder, ``source``
  the options it was built with. ``coverage`` counts by split how many of the videos listed have
  features: ``listed``, ``videos`` (kept), ``missing``, ``bad``, ``uncaptioned``, and ``streams``
  (name -> videos kept that have it).
  """

  name: str
  streams: tuple[Stream, ...]
  splits: Mapping[str, Split]
  vocabulary: Mapping | None = None
  dropped: tuple[Dropped, ...] = ()
  coverage: Mapping[str, Mapping] = dataclasses.field(default_factory=dict)
  categories: int = 0
  versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
  source: Mapping = dataclasses.field(default_factory=dict)
  format_version: int = FORMAT_VERSION

  def stream(self, name: str) -> Stream:
    """The stream of that name; raises DataError, with the known names, if there is none."""
    for stream in self.streams:
      if stream.name == name:
        return stream
    have = ', '.join(s.name for s in self.streams)
    raise DataError(f'data set {self.name!r} has no stream {name!r}; it has: {have}')

  @property
  def hash(self) -> str:
    """A hash of streams, vocabulary and shard checksums, not of where or when they were built."""
    data = dataclasses.asdict(self)
    for split in data['splits'].values():
      for shard in split['shards']:
        del shard['file']  # begins with the name of the data set
        del shard['bytes']  # follows from the checksum
    hashed = {k: data[k] for k in ('streams', 'splits', 'vocabulary', 'format_version')}
    return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()[:16]


def stream_from_dict(data: Mapping) -> Stream:
  """The inverse of ``dataclasses.asdict`` for a stream, from parsed JSON."""
  tuples = {k: tuple(data[k]) for k in ('shape', 'mean', 'std')}
  return Stream(**{**data, **tuples})


def write_manifest(manifest: Manifest, directory) -> None:
  """Writes the manifest; it is the last file written, so a folder with one is complete."""
  write_json(pathlib.Path(directory) / MANIFEST_NAME, dataclasses.asdict(manifest))


def read_manifest(directory) -> Manifest:
  """Reads a data set folder's manifest.

  Raises:
    DataError: no manifest there, or one of another format version.
  """
  path = pathlib.Path(directory) / MANIFEST_NAME
  if not path.is_file():
    raise DataError(f'{path}: no such file; {directory} is not a data set built by data_prep.build')
  data = json.loads(path.read_text())
  if data.get('format_version') != FORMAT_VERSION:
    found = data.get('format_version')
    raise DataError(f'{path}: format version {found}, this program reads {FORMAT_VERSION}; rebuild')
  splits = {
    name: Split(s['videos'], s['captions'], tuple(Shard(**shard) for shard in s['shards']))
    for name, s in data['splits'].items()
  }
  data['splits'] = splits
  data['streams'] = tuple(stream_from_dict(s) for s in data['streams'])
  data['dropped'] = tuple(Dropped(**d) for d in data['dropped'])
  return Manifest(**data)
