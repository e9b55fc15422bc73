"""Readers of feature files in all supported forms: ids, and one array per id.

reader = open_features('image', 'features/')
reader.ids                  # names of videos, without extension
reader.read('video0')       # an array as stored, or DataError naming the file

Each form is a subclass of ``FeatureReader``; ``FORMS`` lists them. A reader outside the package is
named as ``package.module:Class``; see docs/extending.md.
"""

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from vidcap_jax import extensions
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.folder import FolderReader
from vidcap_jax.features.formats.h5 import H5_SUFFIXES, H5Reader
from vidcap_jax.features.formats.lmdb_store import DATA_FILE, LMDB_SUFFIXES, LmdbReader
from vidcap_jax.features.formats.one_file import DICTIONARIES, OneFileReader
from vidcap_jax.features.formats.reader import FeatureReader
from vidcap_jax.features.formats.tar import TAR_SUFFIX, TarReader
from vidcap_jax.features.formats.tfds_folder import INFO_FILE, TfdsReader

SIDECAR = 'stream.json'
SUFFIXES = (
  *H5_SUFFIXES,
  *DICTIONARIES,
  TAR_SUFFIX,
  *LMDB_SUFFIXES,
)  # of files of many videos


class Form(NamedTuple):
  """A form of feature files: its description, a test for paths, and its reader."""

  description: str
  matches: Callable[[pathlib.Path], bool]
  reader: Callable[[str, pathlib.Path, str | None], FeatureReader]


def _named(*suffixes: str) -> Callable[[pathlib.Path], bool]:
  return lambda path: path.is_file() and path.suffix.lower() in suffixes


# The first form that matches a path is used.
FORMS = (
  Form('one .h5 file', _named(*H5_SUFFIXES), H5Reader),
  Form('one .pkl, .pth or .npz file with a dictionary', _named(*DICTIONARIES), OneFileReader),
  Form('a .tar file', _named(TAR_SUFFIX), TarReader),
  Form('an LMDB file', _named(*LMDB_SUFFIXES), LmdbReader),
  Form('an LMDB folder', lambda path: (path / DATA_FILE).is_file(), LmdbReader),
  Form('a TFDS folder', lambda path: (path / INFO_FILE).is_file(), TfdsReader),
  Form('a folder of .tar files', lambda path: any(path.glob('*' + TAR_SUFFIX)), TarReader),
  Form('a folder of .npy, .npz, .pkl or .pth files', pathlib.Path.is_dir, FolderReader),
)


def open_features(
  stream: str,
  path,
  key: str | None = None,
  first: str | None = None,
  reader: str | None = None,
) -> FeatureReader:
  """Opens features of any form in ``FORMS``.

  Args:
    stream: name of the stream.
    path: a file or folder.
    key: name of the array where a video has several, if it is not the stream's name.
    first: id of the first row of a table without ids; the ids of later rows count up.
    reader: ``package.module:Class`` of a reader outside the package; None: one of ``FORMS``.

  Raises:
    DataError: nothing at the path, an unknown form, a damaged file, or no features in it.
  """
  path = pathlib.Path(path)
  if not path.exists():
    raise DataError(f'stream {stream!r}: {path}: no such folder or file')
  if reader is not None:
    reader_type = extensions.load(reader, f'--readers={stream}', DataError)
    if not (isinstance(reader_type, type) and issubclass(reader_type, FeatureReader)):
      raise DataError(f'--readers={stream}={reader}: not a subclass of FeatureReader')
    return reader_type(stream, path, key)
  for form in FORMS:
    if form.matches(path):
      if first is not None and form.reader is H5Reader:
        return H5Reader(stream, path, key, first)
      if first is not None:
        raise DataError(f'stream {stream!r}: {path}: --rows is for tables in an .h5 file')
      return form.reader(stream, path, key)
  raise DataError(
    f'stream {stream!r}: {path}: give ' + ', '.join(form.description for form in FORMS)
  )


def read_sidecar(stream: str, path) -> Mapping:
  """Reads a stream's ``stream.json``, which records how it was made; empty if there is none.

  In a folder of features it is next to them; for ``image.h5`` it is ``image.stream.json``.
  Keys, all optional: kind, layout, extractor, version, sampling, dtype, name.

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
  types = {'kind': str, 'layout': str, 'extractor': str, 'version': str, 'sampling': dict}
  if not isinstance(data, dict):
    raise DataError(f'stream {stream!r}: {file}: not a JSON object')
  for key, kind in types.items():
    if data.get(key) is not None and not isinstance(data[key], kind):
      wanted = 'an object' if kind is dict else 'a text'
      raise DataError(f'stream {stream!r}: {file}: {key!r} is {data[key]!r}, not {wanted}')
  return data
