"""Features in one file with a dictionary: id -> array, or id -> arrays by name."""

import contextlib
import pathlib
from collections.abc import Iterator

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.decode import decode
from vidcap_jax.features.formats.reader import Arrays, FeatureReader, group
from vidcap_jax.features.plain_pickle import PickleError

DICTIONARIES = ('.pkl', '.pickle', '.pth', '.pt', '.npz')


class OneFileReader(FeatureReader):
  """Reads a pickle, PyTorch or .npz file. Pickles must fit into memory; the others need not."""

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    super().__init__(stream, path, key)
    try:
      # The file stays open: arrays are read when they are requested.
      self._arrays = decode(path.open('rb'))
      if '' in self._arrays:
        raise DataError('it is not a dictionary of features by video id')
      self._videos = group(self._arrays, key, stream)
      if not self._videos:
        raise DataError('an empty dictionary')
    except (DataError, PickleError) as error:
      raise DataError(f'stream {stream!r}: {path}: {error}') from None
    except Exception as error:  # damaged files raise errors of any type
      why = str(error) or type(error).__name__
      raise DataError(f'stream {stream!r}: {path}: truncated or damaged ({why})') from None

  @property
  def ids(self):
    return self._videos.keys()

  @contextlib.contextmanager
  def arrays(self, name: str) -> Iterator[Arrays]:
    yield {leaf: self._arrays[path] for leaf, path in self._videos[name].items()}
