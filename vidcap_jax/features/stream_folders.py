"""Extracted features on disk: ``OUT/STREAM/ID.npy`` and how they were made, ``stream.json``.

A file is there whole or not at all. Sound that a video does not have is a file of T = 0: what is
known to be absent is not looked for again.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from vidcap_jax.errors import UserError
from vidcap_jax.features import extraction, extractors, video
from vidcap_jax.files import write_json

SIDECAR = 'stream.json'
DTYPE = 'float16'


class FolderError(UserError):
  """Folders that can't be worked with; says what to change."""


Key = TypeVar('Key')
Result = TypeVar('Result')
_FIRST = 3  # inputs that fail alike before the others are spared


class CallError(UserError):
  """The first inputs all failed by a fault of the program, not of their files."""


@dataclasses.dataclass(frozen=True)
class Made:
  """What became of one video.

  Attributes:
    failed: why it has no features; '' if it has.
    damaged: what is wrong with the file, though it has features; '' if nothing.
    absent: streams that it lacks (sound).
  """

  failed: str = ''
  damaged: str = ''
  absent: tuple[str, ...] = ()


def prepare(out: pathlib.Path, streams: Mapping[str, Mapping]) -> None:
  """Makes the streams' folders.

  Args:
    out: the folder for them.
    streams: name -> description, as of ``extractors.check``.

  Raises:
    FolderError: a folder holds features that were made in another way; nothing is changed.
  """
  wanted = {name: {'name': name, **d, 'dtype': DTYPE} for name, d in streams.items()}
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
    found = read_json(file)
    keys = [k for k in wanted if found.get(k) != wanted[k]]
    if keys:
      now = ', '.join(f'{k} {wanted[k]!r}' for k in keys)
      raise FolderError(
        f'{file}: the features there were made in another way (asked for now: {now}); '
        'give another --out, or remove that folder'
      )
  elif folder.is_dir() and any(folder.glob('*.npy')):
    raise FolderError(f'{folder}: holds features without {SIDECAR}; give another --out')


def read_json(path: pathlib.Path) -> dict:
  """A JSON object from a file; empty where there is none."""
  try:
    data = json.loads(path.read_text())
  except (OSError, ValueError):
    return {}
  return data if isinstance(data, dict) else {}


def file_of(out: pathlib.Path, stream: str, video_id: str) -> pathlib.Path:
  """Where a video's features of a stream are."""
  return out / stream / f'{video_id}.npy'


def lacking(out: pathlib.Path, streams: Mapping[str, Mapping], video_id: str) -> dict[str, Mapping]:
  """Those of the streams of which a video has no features yet."""
  return {n: d for n, d in streams.items() if not file_of(out, n, video_id).is_file()}


def make(
  out: pathlib.Path, video_id: str, path: pathlib.Path, streams: Mapping[str, Mapping]
) -> Made:
  """Extracts and stores a video's features; whatever is wrong with it is returned, not raised.

  Raises:
    OSError: they can't be written.
  """
  notes: list[str] = []
  try:
    stored = extracted(path, streams, notes)
  except Exception as error:
    return Made(failed=reason(error))
  for name, array in stored.items():
    _store(file_of(out, name, video_id), array)
  absent = [n for n, a in stored.items() if not len(a) and is_sound(streams[n])]
  return Made(damaged='; '.join(notes), absent=tuple(absent))


def extracted(
  path: pathlib.Path, streams: Mapping[str, Mapping], notes: list[str]
) -> dict[str, np.ndarray]:
  """A video's features as the files hold them, float16, by stream.

  Raises:
    ValueError: a value that float16 can't hold; else whatever ``extraction.extract_video`` or what
      it calls finds wrong with the file.
  """
  arrays = extraction.extract_video(path, streams, notes)
  with np.errstate(over='ignore'):
    stored = {name: array.astype(DTYPE) for name, array in arrays.items()}
  for name, array in stored.items():
    if not np.isfinite(array).all():
      raise ValueError(f'stream {name!r}: values that {DTYPE} can not hold')
  return stored


def reason(error: Exception) -> str:
  """Why a file has failed, in words; of errors that nobody foresaw their kind, too."""
  known = isinstance(error, video.VideoError | ValueError)
  return str(error) if known else f'{type(error).__name__}: {error}'


def stop_on_call_errors(
  results: Iterable[tuple[Key, Result]], why: Callable[[Result], str]
) -> Iterator[tuple[Key, Result]]:
  """The same results, unless the first inputs all fail for the same kind of fault in the program.

  A library called with arguments that it doesn't have fails for every file; reporting each of
  them as damaged would hide the cause.

  Args:
    results: (input, result), as inputs are done.
    why: gives the reason of a failed result, as of ``reason``, and '' for any other.

  Raises:
    CallError: the first ``_FIRST`` inputs, or all if they are fewer, failed with a TypeError or
      AttributeError.
  """
  count = 0
  only_call_errors = True
  for key, result in results:
    if only_call_errors:
      text = why(result)
      only_call_errors = text.startswith(('TypeError: ', 'AttributeError: '))
      count += 1
      if only_call_errors and count == _FIRST:
        raise CallError(_call_error(count, key, text))
    yield key, result
  if only_call_errors and count:
    raise CallError(_call_error(count, key, text))


def _call_error(count: int, key: object, text: str) -> str:
  return (
    f'the first {count} inputs all failed with an error of the program or of a library version, '
    f'not of the files; {key}: {text}'
  )


def is_sound(description: Mapping) -> bool:
  """Whether a stream is of sound, which a video may lack."""
  return extractors.network_of(description['extractor']).reads == 'audio'


def _store(path: pathlib.Path, array: np.ndarray) -> None:
  partial = path.with_name(path.name + '.partial')
  with partial.open('wb') as file:
    np.save(file, array)
    file.flush()
    os.fsync(file.fileno())
  partial.replace(path)
