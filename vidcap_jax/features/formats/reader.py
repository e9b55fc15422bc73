"""The base class of all feature readers, which chooses the array of a video that has several.

A reader lists the arrays of each video by name (a single unnamed array has the name ''), and reads
them only when they are requested.
"""

import abc
import contextlib
import pathlib
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np

from vidcap_jax.errors import DataError

# Name -> function that reads the array.
Arrays = Mapping[str, Callable[[], np.ndarray]]

SCORES = ('scores', 'score', 'conf', 'confidence')  # names of the confidences of regions


class FeatureReader(abc.ABC):
  """One stream's features, read one video at a time.

  Attributes:
    stream: the stream's name.
    path: where the features are.
    key: name of the array where a video has several, if it is not the stream's name.
  """

  def __init__(self, stream: str, path: pathlib.Path, key: str | None):
    self.stream = stream
    self.path = path
    self.key = key

  @property
  @abc.abstractmethod
  def ids(self) -> Collection[str]:
    """Names of the videos that have features."""

  def where(self, name: str) -> str:
    """The file and the place in it, for messages; by default for a form with a single file."""
    return f'{self.path}[{name!r}]'

  def fingerprint(self, name: str) -> str:
    """A string that changes when the file does, by its size and time."""
    status = self.path.stat()
    return f'{self.path.name}:{name}:{status.st_size}:{status.st_mtime_ns}'

  @abc.abstractmethod
  def arrays(self, name: str) -> contextlib.AbstractContextManager[Arrays]:
    """A context in which all arrays of a video can be read."""

  def read(self, name: str) -> np.ndarray:
    """Reads a video's array as stored; DataError names the place if it can't be read."""
    return self._read(name, lambda arrays: arrays[pick(list(arrays), self.key, self.stream)])

  def read_scores(self, name: str) -> np.ndarray | None:
    """Reads the scores stored with a video's regions; None if there are none."""
    scores = self._read(
      name, lambda arrays: next((arrays[s] for s in SCORES if s in arrays), _none)
    )
    return scores if scores.ndim else None

  def _read(self, name: str, choose: Callable[[Arrays], Callable[[], np.ndarray]]) -> np.ndarray:
    try:
      with self.arrays(name) as arrays:
        return np.asarray(choose(arrays)())
    # Damaged files raise errors of any type (ValueError, EOFError, zlib.error, MemoryError …).
    except Exception as error:
      raise DataError(f'{self.where(name)}: {_reason(error)}') from None


def _none() -> np.ndarray:
  return np.zeros(())


def pick(names: Collection[str], key: str | None, stream: str) -> str:
  """The name of the stream's array: the key, the stream's name, or that of the only array.

  Raises:
    DataError: no array, or several with other names.
  """
  others = [name for name in names if name not in SCORES]
  if key is None and stream in names:
    return stream
  if key is not None and key in names:
    return key
  if len(others) == 1 and (key is None or others == ['']):
    return others[0]
  if not names:
    raise DataError('holds no array')
  shown = ', '.join(list(names)[:5])
  raise DataError(
    f'holds {len(names)} array{"s" * (len(names) > 1)} ({shown}), none of them named '
    f'{key or stream!r}; rename it, or build with --keys={stream}=NAME'
  )


def group(paths: Iterable[str], key: str | None, stream: str) -> dict[str, dict[str, str]]:
  """Groups the arrays of a file with many videos by video.

  Args:
    paths: of the arrays, like 'train/video0' or 'video0/boxes'.
    key: name of the array, if declared.
    stream: name of the stream.

  Returns:
    Name of a video -> name of its array -> path. The last parts of paths are names of arrays if one
    of them is the key or the stream's name, or if all but scores are equal; the parts before are
    then the video's name. Otherwise the whole path is, and the video's only array is named ''.

  Raises:
    DataError: no array has the declared name.
  """
  parts = [path.rpartition('/') for path in paths]
  leaves = [leaf for parent, _, leaf in parts if parent]
  if key and key not in leaves:
    have = ', '.join(list(dict.fromkeys(leaves or [leaf for _, _, leaf in parts]))[:5])
    raise DataError(f'no array is named {key!r}, as --keys={stream}={key} says; there are: {have}')
  others = [leaf for leaf in leaves if leaf not in SCORES]
  if (key or stream) not in leaves and not len(set(others)) == 1 < len(others):
    return {''.join(path): {'': ''.join(path)} for path in parts}
  videos: dict[str, dict[str, str]] = {}
  for parent, slash, leaf in parts:
    videos.setdefault(parent or leaf, {})[leaf if parent else ''] = parent + slash + leaf
  return videos


def _reason(error: Exception) -> str:
  if isinstance(error, DataError):
    return str(error)
  text = str(error).splitlines()[0] if str(error).strip() else type(error).__name__
  if 'allow_pickle' in text:
    return 'cannot be read: it holds Python objects, not numbers'
  if isinstance(error, (EOFError, zipfile.BadZipFile)) or 'reshape' in text or 'EOF' in text:
    return f'cannot be read: truncated or damaged ({text})'
  return f'cannot be read: {text}'
