"""Reads and writes records, one per video: TFDS examples in ArrayRecord files, without TensorFlow.

    source = open_split('DIR', 'train')     # random access, thread-safe, can be pickled
    video = source[0]                       # Video(video_id, captions, features, category)

The encoding is TFDS's own, so ``tfds.builder_from_directory('DIR').as_data_source('train')`` reads
the same files. Files are written uncompressed with one record per group: random reads are then
several times faster than with any compression, and float16 features hardly compress.
"""

import dataclasses
import errno
import functools
import hashlib
import os
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from vidcap_jax.data.schema import Shard, Stream, read_manifest
from vidcap_jax.errors import DataError

WRITER_OPTIONS = 'group_size:1,uncompressed'
_ADVICE = 'copy the data set again or rebuild it with data_prep.build --overwrite'


@dataclasses.dataclass(frozen=True)
class Video:
  """One video of a data set.

  Attributes:
    video_id: as in the annotation.
    captions: all its raw captions; empty for a video without references.
    features: stream name -> array, with the axes of ``schema.KINDS``, but a vector is (0 or 1, D).
      A stream that the video lacks has T = 0. A region of zeros is an absent region.
    category: the index of the video's category, -1 if it has none.
    key_frame: set by ``key_frames.attach``, -1 if unknown; it is not part of the record.
  """

  video_id: str
  captions: tuple[str, ...]
  features: dict[str, np.ndarray]
  category: int = -1
  key_frame: int = -1


def record_shape(stream: Stream) -> tuple[int | None, ...]:
  """Shape of a stream in a record: as in the manifest, but (None, D) for a vector."""
  return (None, *stream.shape) if stream.kind == 'vector' else stream.shape


def absent(stream: Stream) -> np.ndarray:
  """The array that a record holds for a video without the stream: T = 0 and no regions."""
  shape = tuple(0 if n is None else n for n in record_shape(stream))
  return np.zeros(shape, stream.dtype)


def tfds_features(streams: Sequence[Stream]):
  """The TFDS feature specification of a record."""
  import tensorflow_datasets as tfds  # slow to import

  tensors = {
    s.name: tfds.features.Tensor(
      shape=record_shape(s), dtype=np.dtype(s.dtype).type, encoding='bytes'
    )
    for s in streams
  }
  return tfds.features.FeaturesDict(
    {
      'video_id': tfds.features.Text(),
      'captions': tfds.features.Sequence(tfds.features.Text()),
      'category': np.int32,
      'features': tensors,
    }
  )


def encode_video(video: Video, features) -> bytes:
  """Serialises a video; ``features`` comes from ``tfds_features``. Same video, same bytes."""
  from tensorflow_datasets.proto import tf_example_pb2

  record = features.serialize_example(
    {
      'video_id': video.video_id,
      'captions': list(video.captions),
      'category': video.category,
      'features': {name: _writable(array) for name, array in video.features.items()},
    }
  )
  # TFDS writes keys in any order: without a fixed one, checksums would differ.
  return tf_example_pb2.Example.FromString(record).SerializeToString(deterministic=True)


def decode_video(record: bytes, features) -> Video:
  """The inverse of ``encode_video``; arrays are read-only views of the record."""
  example = features.deserialize_example_np(record)
  return Video(
    example['video_id'].decode(),
    tuple(caption.decode() for caption in example['captions']),
    {name: _readable(array) for name, array in example['features'].items()},
    int(example['category']),
  )


# TFDS can't read an empty tensor with two free axes (regions): it is written as one frame with one
# region of zeros, which means the same, and read as T = 0.
def _writable(array: np.ndarray) -> np.ndarray:
  if array.ndim == 3 and not array.size:
    return np.zeros((max(1, len(array)), 1, array.shape[-1]), array.dtype)
  return array


def _readable(array: np.ndarray) -> np.ndarray:
  if array.ndim == 3 and array.shape[:2] == (1, 1) and not array.any():
    return array[:0, :0]
  return array


def write_shard(path, records: Iterable[bytes]) -> Shard:
  """Writes records to an ArrayRecord file, which appears under its name only when complete.

  Returns:
    The file's name, its record count, SHA-256 and size, for the manifest.

  Raises:
    OSError: the file cannot be written (a full disk, say).
  """
  from array_record.python import array_record_module

  path = pathlib.Path(path)
  partial = path.with_name(path.name + '.partial')
  count = 0
  writer = _written(partial, array_record_module.ArrayRecordWriter, str(partial), WRITER_OPTIONS)
  try:
    for record in records:
      _written(partial, writer.write, record)
      count += 1
  finally:
    _written(partial, writer.close)
  with partial.open('rb+') as file:
    os.fsync(file.fileno())
  shard = Shard(path.name, count, sha256(partial), partial.stat().st_size)
  partial.replace(path)
  return shard


def _written(path: pathlib.Path, call, *args):
  """Calls the ArrayRecord writer, whose RuntimeError for any file system error becomes OSError."""
  try:
    return call(*args)
  except RuntimeError as error:
    raise OSError(errno.EIO, f'cannot be written: {error}', str(path)) from None


def sha256(path) -> str:
  """The SHA-256 of a file, in hexadecimal."""
  with pathlib.Path(path).open('rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def count_records(path) -> int:
  """Number of records in an ArrayRecord file; 0 for a truncated one."""
  from array_record.python import array_record_module

  reader = array_record_module.ArrayRecordReader(str(path))
  try:
    return reader.num_records()
  finally:
    reader.close()


def check_shard(directory, shard: Shard, *, checksum: bool = False) -> None:
  """Compares a shard file with its entry in the manifest.

  Args:
    directory: the data set folder.
    shard: from the manifest.
    checksum: also read the whole file and compare its SHA-256.

  Raises:
    DataError: the file is missing, has another size or number of records (a truncated file has
      none), or another checksum.
  """
  path = pathlib.Path(directory) / shard.file
  if not path.is_file():
    raise DataError(f'{path}: shard file is missing; {_ADVICE}')
  try:
    found = count_records(path)
  except Exception as error:  # the reader raises errors of several types for a damaged header
    why = str(error) or type(error).__name__
    raise DataError(
      f'{path}: truncated or damaged shard file ({why}): '
      f'found no records, expected {shard.records}; {_ADVICE}'
    ) from None
  size = path.stat().st_size
  if found != shard.records:
    raise DataError(
      f'{path}: truncated or damaged shard file ({size} bytes): '
      f'found {found} records, expected {shard.records}; {_ADVICE}'
    )
  if shard.bytes and size != shard.bytes:
    raise DataError(
      f'{path}: changed since it was written: {size} bytes, expected {shard.bytes}; {_ADVICE}'
    )
  if checksum and (actual := sha256(path)) != shard.sha256:
    raise DataError(
      f'{path}: changed since it was written: SHA-256 is {actual[:16]}…, '
      f'the manifest says {shard.sha256[:16]}…; {_ADVICE}'
    )


class VideoSource(Protocol):
  """Random access to videos: a split, or a list of ``Video``."""

  def __len__(self) -> int: ...

  def __getitem__(self, index: int, /) -> Video: ...


class SplitSource:
  """Random access to the videos of one split: ``len(source)``, ``source[i] -> Video``.

  Several threads may read at once. It can be pickled (files are opened again on first use).
  """

  def __init__(self, directory, shards: Sequence[Shard], streams: Sequence[Stream]):
    from array_record.python.array_record_data_source import ArrayRecordDataSource

    self.directory = str(directory)
    self.streams = tuple(streams)
    self._shards = tuple(s for s in shards if s.records)
    paths = [str(pathlib.Path(directory) / s.file) for s in self._shards]
    self._records = ArrayRecordDataSource(paths) if paths else ()

  # Not pickled: a copy makes its own TFDS features.
  @functools.cached_property
  def _features(self):
    return tfds_features(self.streams)

  def __getstate__(self):
    return {k: v for k, v in self.__dict__.items() if k != '_features'}

  def __len__(self) -> int:
    return len(self._records)

  def __getitem__(self, index: int) -> Video:
    index = index.__index__()
    if not 0 <= index < len(self):
      raise IndexError(f'video {index} of {len(self)} in {self.directory}')
    try:
      return decode_video(self._records[index], self._features)
    except Exception as error:  # ArrayRecord has checksums of its own, and finds changed bytes
      raise DataError(f'{self._where(index)}: damaged record ({error}); {_ADVICE}') from error

  def _where(self, index: int) -> str:
    for shard in self._shards:
      if index < shard.records:
        return f'{pathlib.Path(self.directory) / shard.file}: record {index}'
      index -= shard.records
    return self.directory

  def __iter__(self) -> Iterator[Video]:
    return (self[i] for i in range(len(self)))

  def __repr__(self) -> str:
    return f'SplitSource({self.directory!r}, {len(self)} videos)'


@dataclasses.dataclass(frozen=True)
class Subset:
  """Some videos of a source, by index."""

  source: VideoSource
  indices: Sequence[int]

  def __len__(self) -> int:
    return len(self.indices)

  def __getitem__(self, index: int) -> Video:
    return self.source[self.indices[index]]


def open_split(directory, split: str) -> SplitSource:
  """Opens a split for random access, after checking its shards against the manifest.

  Raises:
    DataError: no data set there, no such split, or a shard that is missing or truncated.
  """
  manifest = read_manifest(directory)
  if split not in manifest.splits:
    have = ', '.join(f'{name} ({s.videos})' for name, s in manifest.splits.items())
    raise DataError(f'{directory}: no split {split!r}; it has: {have}')
  shards = manifest.splits[split].shards
  for shard in shards:
    check_shard(directory, shard)
  return SplitSource(directory, shards, manifest.streams)
