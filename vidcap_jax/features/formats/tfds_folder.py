"""Features in a TFDS data set, such as those of ``data_prep.build``; works without TensorFlow."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.decode import text_of
from vidcap_jax.features.formats.reader import Arrays, FeatureReader

INFO_FILE = 'dataset_info.json'
ID_FEATURES = ('video_id', 'id', 'name')


class TfdsReader(FeatureReader):
  """Reads all splits of a folder that ``tfds.builder_from_directory`` opens.

  A record's id is its feature ``video_id``, ``id`` or ``name``. Arrays have the names of their
  features, without a leading ``features/``. All records are read once to find the ids.
  """

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    super().__init__(stream, path, key)
    import tensorflow_datasets as tfds  # slow to import: only for such folders

    where = f'stream {stream!r}: {path}'
    self._positions: dict[str, tuple[str, int]] = {}
    try:
      builder = tfds.builder_from_directory(str(path))
      id_feature = next((name for name in ID_FEATURES if name in builder.info.features), None)
      if id_feature is None:
        have = ', '.join(builder.info.features)
        raise DataError(f'{where}: no feature {", ".join(ID_FEATURES)}; it has {have}')
      self._splits = {
        name: builder.as_data_source(name)
        for name, info in builder.info.splits.items()
        if info.num_examples
      }
      for split, source in self._splits.items():
        if len(source) != builder.info.splits[split].num_examples:
          raise DataError(f'{where}: split {split!r}: truncated, {len(source)} records')
        for index in range(len(source)):
          video = text_of(_plain(source[index][id_feature]))
          if video in self._positions:
            raise DataError(
              f'{where}: {video!r} is in {split!r} and in {self._positions[video][0]!r}'
            )
          self._positions[video] = split, index
    except DataError:
      raise
    except NotImplementedError:  # raised by TFDS for files that it can only read with TensorFlow
      raise DataError(
        f'{where}: stored as {builder.info.file_format}; array_record and parquet can be read'
      ) from None
    except Exception as error:  # damaged metadata or records raise errors of any type
      why = str(error).splitlines()[0] if str(error).strip() else type(error).__name__
      raise DataError(f'{where}: cannot be read by TFDS: {why}') from None
    if not self._positions:
      raise DataError(f'{where}: no records')

  @property
  def ids(self):
    return self._positions.keys()

  def where(self, name: str) -> str:
    split, index = self._positions[name]
    return f'{self.path}[{name!r}] ({split}, record {index})'

  def fingerprint(self, name: str) -> str:
    status = (self.path / INFO_FILE).stat()
    return f'{name}:{self._positions[name]}:{status.st_size}:{status.st_mtime_ns}'

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    split, index = self._positions[name]
    yield dict(_numbers(self._splits[split][index], ''))


def _numbers(record: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Callable]]:
  """A record's arrays of numbers, by name."""
  for name, value in record.items():
    if isinstance(value, Mapping):
      yield from _numbers(value, '' if name == 'features' else f'{prefix}{name}/')
    elif isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in 'fiu':
      yield prefix + name, _reads(value)


def _reads(value: np.ndarray) -> Callable[[], np.ndarray]:
  return lambda: value


def _plain(value: Any) -> Any:
  return value.item() if isinstance(value, np.generic) else value
