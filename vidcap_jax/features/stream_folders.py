"""Extracted features on disk: ``OUT/STREAM/ID.npy``, and ``stream.json`` with how they were made.

Each file is written whole or not at all. For a video without sound, the sound stream's file has
T = 0, so that the next run does not decode the video again.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import TypeVar

import numpy as np

from vidcap_jax.errors import UserError
from vidcap_jax.features import extraction, extractors, video
from vidcap_jax.features.picture_files import Source
from vidcap_jax.files import write_json

SIDECAR = 'stream.json'
DTYPE = 'float16'


class FolderError(UserError):
  """A stream's folder holds features that were made in another way; says what to change."""


Key = TypeVar('Key')
Result = TypeVar('Result')
_CALL_ERROR_INPUTS = 3  # after so many inputs with the same fault of the program, the run stops


class CallError(UserError):
  """The first inputs all failed because of a fault in the program, not in their files."""


@dataclasses.dataclass(frozen=True)
class VideoResult:
  """The result of extracting one video.

  Attributes:
    failed: why it has no features; '' if it has.
    damaged: what is wrong with the file although it has features; '' if nothing.
    absent: sound streams that the video does not have.
  """

  failed: str = ''
  damaged: str = ''
  absent: tuple[str, ...] = ()


def prepare_folders(
  out: pathlib.Path, streams: Mapping[str, Mapping], frame_rate: Fraction | None = None
) -> None:
  """Creates the streams' folders, each with its ``stream.json``.

  Args:
    out: the folder to create them in.
    streams: name -> description, as of ``extractors.check``.
    frame_rate: of videos whose frames are files; recorded for streams that sample by time.

  Raises:
    FolderError: a folder holds features that were made in another way; nothing is changed.
  """
  wanted = {name: {'name': name, **d, 'dtype': DTYPE} for name, d in streams.items()}
  for description in wanted.values() if frame_rate else ():
    if 'fps' in description['sampling']:
      description['frame_rate'] = str(frame_rate)
  for name, description in wanted.items():
    _check(out / name, description)
  for name, description in wanted.items():
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / SIDECAR).is_file():
      write_json(folder / SIDECAR, description)


def _check(folder: pathlib.Path, wanted: Mapping) -> None:
  file = folder / SIDECAR
  if file.is_file():
    saved = read_json(file)
    # Features of video files alone have no frame rate, and may stand beside those of frames.
    keys = [k for k in wanted if saved.get(k) != wanted[k] and (k != 'frame_rate' or k in saved)]
    if keys:
      requested = ', '.join(f'{k} {wanted[k]!r}' for k in keys)
      raise FolderError(
        f'{file}: the features there were made in another way (now: {requested}); '
        'give another --output, or remove that folder'
      )
  elif folder.is_dir() and any(folder.glob('*.npy')):
    raise FolderError(f'{folder}: holds features without {SIDECAR}; give another --output')


def read_json(path: pathlib.Path) -> dict:
  """The JSON object in a file; empty if there is no file, or no object in it."""
  try:
    data = json.loads(path.read_text())
  except (OSError, ValueError):
    return {}
  return data if isinstance(data, dict) else {}


def feature_file(out: pathlib.Path, stream: str, video_id: str) -> pathlib.Path:
  """The file of a video's features of a stream."""
  return out / stream / f'{video_id}.npy'


def missing_streams(
  out: pathlib.Path, streams: Mapping[str, Mapping], video_id: str
) -> dict[str, Mapping]:
  """The streams of which a video has no features yet."""
  return {n: d for n, d in streams.items() if not feature_file(out, n, video_id).is_file()}


def extract_to_files(
  out: pathlib.Path, video_id: str, path: Source, streams: Mapping[str, Mapping]
) -> VideoResult:
  """Extracts a video's features and writes their files; returns errors in the video.

  Raises:
    OSError: a file can't be written.
  """
  notes: list[str] = []
  try:
    stored = extract_features(path, streams, notes)
  except Exception as error:
    return VideoResult(failed=failure_reason(error))
  for name, array in stored.items():
    _store(feature_file(out, name, video_id), array)
  absent = [n for n, a in stored.items() if not len(a) and is_sound(streams[n])]
  return VideoResult(damaged='; '.join(notes), absent=tuple(absent))


def extract_features(
  path: Source, streams: Mapping[str, Mapping], notes: list[str]
) -> dict[str, np.ndarray]:
  """A video's features by stream, as the files store them: float16.

  Raises:
    ValueError: a value is too large for float16, or all are too small for it.
    Exception: as of ``extraction.extract_video``, and any error of the decoder and the networks.
  """
  arrays = extraction.extract_video(path, streams, notes)
  with np.errstate(over='ignore'):
    stored = {name: array.astype(DTYPE) for name, array in arrays.items()}
  for name, array in stored.items():
    if not np.isfinite(array).all():
      raise ValueError(f'stream {name!r}: values that {DTYPE} cannot hold')
    if not array.any() and arrays[name].any():
      raise ValueError(f'stream {name!r}: all values become 0 in {DTYPE}')
  return stored


def failure_reason(error: Exception) -> str:
  """Why a file failed, in words; for unexpected errors with their type."""
  known = isinstance(error, video.VideoError | ValueError)
  return str(error) if known else f'{type(error).__name__}: {error}'


def stop_on_call_errors(
  results: Iterable[tuple[Key, Result]], why: Callable[[Result], str]
) -> Iterator[tuple[Key, Result]]:
  """Yields the results, but stops if the first inputs all fail because of a fault in the program.

  A library that is called with wrong arguments fails for every file; to report each file as
  damaged would hide the cause.

  Args:
    results: (input, result), in order of completion.
    why: gives a result's reason, as of ``failure_reason``, and '' for one that did not fail.

  Raises:
    CallError: the first three inputs, or all if there are fewer, failed with a TypeError or
      AttributeError.
  """
  count = 0
  only_call_errors = True
  for key, result in results:
    if only_call_errors:
      text = why(result)
      only_call_errors = text.startswith(('TypeError: ', 'AttributeError: '))
      count += 1
      if only_call_errors and count == _CALL_ERROR_INPUTS:
        raise CallError(_call_error(count, key, text))
    yield key, result
  if only_call_errors and count:
    raise CallError(_call_error(count, key, text))


def _call_error(count: int, key: object, text: str) -> str:
  return (
    f'the first {count} inputs all failed with an error in the program or a library version, '
    f'not in the files; {key}: {text}'
  )


def is_sound(description: Mapping) -> bool:
  """Whether a stream is made from sound, which a video may not have."""
  return extractors.network_of(description['extractor']).reads == 'audio'


def _store(path: pathlib.Path, array: np.ndarray) -> None:
  partial = path.with_name(path.name + '.partial')
  with partial.open('wb') as file:
    np.save(file, array)
    file.flush()
    os.fsync(file.fileno())
  partial.replace(path)
