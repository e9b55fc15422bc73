"""Feature files in the forms they come in, behind one interface: ids, and one array per id.

reader = open_features('image', 'features/')
reader.ids                  # names found, without extension
reader.read('video0')       # a float array, or DataError naming the file
"""

import json
import pathlib
from collections.abc import Collection, Mapping
from typing import Protocol

import numpy as np

from data_prep.features.folder import FolderReader
from data_prep.features.h5 import H5_SUFFIXES, H5Reader
from vidcap_jax.data.schema import DataError

SIDECAR = 'stream.json'


class FeatureReader(Protocol):
  """One stream's features, read one video at a time."""

  path: pathlib.Path

  @property
  def ids(self) -> Collection[str]:
    """Names of the videos that have features."""

  def where(self, name: str) -> str:
    """The file, and the place in it, for messages."""

  def fingerprint(self, name: str) -> str:
    """Changes when the file does (size and time), without reading it."""

  def read(self, name: str) -> np.ndarray:
    """The array as stored; DataError if it cannot be read."""


def open_features(stream: str, path) -> FeatureReader:
  """Opens a folder of .npy/.npz files, or one .h5 file with a data set per video.

  Raises:
    DataError: nothing there, or nothing in it.
  """
  path = pathlib.Path(path)
  if path.is_dir():
    return FolderReader(stream, path)
  if not path.exists():
    raise DataError(f'stream {stream!r}: {path}: no such folder or file')
  if path.suffix.lower() in H5_SUFFIXES:
    return H5Reader(stream, path)
  raise DataError(
    f'stream {stream!r}: {path}: give a folder of .npy or .npz files, or one .h5 file'
  )


def read_sidecar(stream: str, path) -> Mapping:
  """What is known of a stream's making: its ``stream.json``, an empty mapping without one.

  In a folder of features it lies beside them; beside ``image.h5`` it is ``image.stream.json``.
  Keys, all optional: kind, extractor, version, sampling, dtype, name.

  Raises:
    DataError: it is not a JSON object, or a value is of the wrong type.
  """
  path = pathlib.Path(path)
  file = path / SIDECAR if path.is_dir() else path.with_suffix('.' + SIDECAR)
  if not file.is_file():
    return {}
  try:
    data = json.loads(file.read_text())
  except ValueError as error:
    raise DataError(f'stream {stream!r}: {file}: not a JSON file: {error}') from None
  types = {'kind': str, 'extractor': str, 'version': str, 'sampling': dict}
  if not isinstance(data, dict):
    raise DataError(f'stream {stream!r}: {file}: not a JSON object')
  for key, kind in types.items():
    if data.get(key) is not None and not isinstance(data[key], kind):
      wanted = 'an object' if kind is dict else 'a text'
      raise DataError(f'stream {stream!r}: {file}: {key!r} is {data[key]!r}, not {wanted}')
  return data
