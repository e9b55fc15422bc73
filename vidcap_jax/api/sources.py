"""What a caller names as inputs: paths, or features in memory; a bad one keeps its place."""

import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.features.video_folder import PICTURES, parse_frame_rate
from vidcap_jax.inference import feature_inputs
from vidcap_jax.inference.feature_inputs import Input
from vidcap_jax.inference.inputs import find_inputs, is_named

PathLike = str | os.PathLike[str]
Features = Mapping[str, Any]  # stream -> array; or stream -> path of features


def as_list(paths: PathLike | Iterable[PathLike]) -> list[PathLike]:
  """One path as a list of it, several as a list.

  Raises:
    TypeError: what is no path.
  """
  if isinstance(paths, str | os.PathLike):
    return [paths]
  if not isinstance(paths, Iterable):
    raise TypeError(f'give a path or a list of paths, not {paths!r}')
  return list(paths)


def from_paths(
  provenance: FeatureProvenance,
  paths: PathLike | Iterable[PathLike],
  pictures: str = 'auto',
  frame_rate: float | str | None = None,
) -> list[Input]:
  """The videos of files and folders, see ``inputs.find_inputs``.

  A path that names no video, or features that don't fit the model, is an input that can't be read.

  Raises:
    ConfigError: another value of ``pictures``, or a frame rate that is not above 0.
    TypeError: what is no path.
  """
  if pictures not in PICTURES:
    raise ConfigError(f'pictures={pictures!r}: give {", ".join(PICTURES)}')
  rate = None if frame_rate is None else str(frame_rate)
  parse_frame_rate(rate)  # raises
  found: list[Input] = []
  for path in as_list(paths):
    name = os.fspath(path)
    try:
      if not name:
        raise DataError('an empty path; give a file or folder')
      found += find_inputs(provenance, [name], pictures, rate)
    except (UserError, OSError) as error:
      if is_named(name):  # the form of the command line
        streams = (*provenance.streams, *provenance.alignment_streams)
        by_stream = ', '.join(f"{stream.name!r}: 'DIR'" for stream in streams)
        error = DataError(f'{error}; in Python give features={{{by_stream}}}')
      found.append(_unreadable(name, pathlib.Path(name).stem or name, error))
  return found


def from_features(
  provenance: FeatureProvenance,
  features: Features | Iterable[Features],
  ids: Sequence[str] | None = None,
) -> list[Input]:
  """The videos of arrays in memory, or of files and folders of features, by stream.

  Raises:
    ConfigError: another number of ids than of videos, or ids for files.
    TypeError: what is no mapping from streams.
  """
  videos = [features] if isinstance(features, Mapping) else list(features)
  for video in videos:
    if not isinstance(video, Mapping):
      raise TypeError(
        'features: give a dictionary from streams to arrays, or a list of these; got '
        f'{type(video).__name__}'
      )
  if isinstance(ids, str) or (ids is not None and len(ids) != len(videos)):
    raise ConfigError(f'ids={ids!r}: give a list of {len(videos)} names, one for each video')
  found: list[Input] = []
  for number, video in enumerate(videos):
    video_id = str(number) if ids is None else ids[number]
    if video and all(isinstance(value, str | os.PathLike) for value in video.values()):
      if ids is not None:
        raise ConfigError(f'ids={ids!r}: features in files are named by their files; leave ids out')
      found += _from_files(provenance, video_id, video)
    else:
      found.append(feature_inputs.from_arrays(provenance, video_id, video))
  return found


def _from_files(
  provenance: FeatureProvenance, video_id: str, paths: Mapping[str, PathLike]
) -> list[Input]:
  """The videos of files or folders of features, named by themselves."""
  try:
    by_stream = feature_inputs.by_stream(provenance, [(k, os.fspath(p)) for k, p in paths.items()])
    return feature_inputs.from_files(provenance, by_stream)
  except (UserError, OSError) as error:
    return [_unreadable(video_id, video_id, error)]


def _unreadable(source: str, video_id: str, error: Exception) -> Input:
  """An input that fails with an error when it is read."""

  def load(notes: list[str]) -> NoReturn:
    raise error

  return Input(source, video_id, load)
