"""A feature format: one CSV file with a frame in each line, ``video_id,value,value,…``."""

import contextlib
import csv
import pathlib
from collections.abc import Collection, Iterator

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.reader import Arrays, FeatureReader


class CsvReader(FeatureReader):
  """Reads the frames of each video, in the order of the lines."""

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    super().__init__(stream, path, key)
    self._rows: dict[str, list[list[str]]] = {}
    try:
      with path.open(newline='', encoding='utf-8') as file:
        for row in csv.reader(file):
          if row:
            self._rows.setdefault(row[0], []).append(row[1:])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
      raise DataError(f'stream {stream!r}: {path}: cannot be read as CSV: {error}') from None

  @property
  def ids(self) -> Collection[str]:
    return self._rows.keys()

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    """The video's one array, without a name of its own. What fails in here is reported with it."""
    yield {'': lambda: np.array(self._rows[name], np.float32)}  # (T, D)
