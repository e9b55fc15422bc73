"""Captions for new videos from a checkpoint: video files, or features of them.

One JSON object a line on stdout for each video; what fails is named on stderr and makes the exit
code 1. Video files are turned into features as the checkpoint's streams were made, or refused.
"""

import json
import pathlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from vidcap_jax import captioning, distributed
from vidcap_jax.data.key_frames import lacking
from vidcap_jax.data.records import Video, absent
from vidcap_jax.data.schema import DataError, Stream
from vidcap_jax.restore import Restored

# Videos captioned at a time: few, so that captions of a long list appear as it is worked through.
GROUP = 8

Result = tuple[str, Video | Exception]


def predict(
  restored: Restored,
  inputs: str,
  others: Sequence[Restored] = (),
  weights: Sequence[float] | None = None,
) -> int:
  """Captions what ``--inputs`` names; returns the exit code, 1 if anything failed.

  Args:
    restored: the checkpoint.
    inputs: comma-separated video files and folders of them, feature files (of a model with one
      stream), or NAME=FEATURES for each stream with a folder, .h5, .npy or .npz file.
    others: checkpoints that caption together with the first, see ``captioning.ensemble_of``.
    weights: of the first and the others; None: all alike.

  Raises:
    ConfigError: a model makes no captions, or they don't fit together.
    DataError: nothing there, a stream that is missing, or one that can't be reproduced from video.
  """
  members = (restored, *others)
  if others:
    caption = captioning.ensemble_of(members, weights, GROUP).caption
  else:
    caption = captioning.captioner_of(restored, GROUP)
  streams = _streams_of(members)
  videos = _from_features(streams, inputs)
  if videos is None:
    videos = _from_files(streams, inputs)
  failed, done = 0, list[str]()
  group: list[Video] = []

  def say(text: str) -> None:
    if distributed.is_main():
      print(text, file=sys.stderr, flush=True)

  def flush() -> None:
    ids = [video.video_id for video in group]
    for made in caption(group, ids):
      if distributed.is_main():
        print(json.dumps(made, ensure_ascii=False), flush=True)
    group.clear()

  for where, video in videos:
    if isinstance(video, Exception):
      failed += 1
      said = str(video) if str(video).startswith(where) else f'{where}: {video}'
      say(said)
      continue
    if video.video_id in done:
      say(f'{where}: a second video called {video.video_id!r}')
    done.append(video.video_id)
    group.append(video)
    if len(group) == GROUP:
      flush()
  if group:
    flush()
  for member in members:
    if done and member.key_frames:
      say(lacking(member.key_frames, done))
  if failed:
    say(f'{failed} of {failed + len(done)} inputs failed')
  return 1 if failed else 0


def _streams_of(members: Sequence[Restored]) -> tuple[Stream, ...]:
  """The streams that any of the models reads.

  Raises:
    DataError: two models were trained on streams of one name that were made differently.
  """
  found: dict[str, Stream] = {}
  for member in members:
    for stream in member.streams:
      same = found.setdefault(stream.name, stream)
      for field in ('kind', 'channels', 'extractor', 'version', 'sampling'):
        if getattr(same, field) != getattr(stream, field):
          raise DataError(
            f'stream {stream.name!r}: {member.path} was trained on {field} '
            f'{getattr(stream, field)!r}, another checkpoint on {getattr(same, field)!r}; '
            'caption with each of them by itself'
          )
  return tuple(found.values())


def _from_features(streams: tuple[Stream, ...], inputs: str) -> Iterator[Result] | None:
  """Videos from given features, by id; None if the inputs are no features."""
  from data_prep import features  # reads many forms; training does without it
  from data_prep.features import check, layout
  from data_prep.features.folder import FolderReader

  paths = _streams_given(streams, inputs)
  if paths is None:
    return None
  # A lone file is one entry of its folder; the first stream's names the video.
  lone_id = next(iter(paths.values())).stem
  readers: dict[str, features.FeatureReader] = {}
  layouts: dict[str, layout.Layout | None] = {}
  names: dict[str, dict[str, str]] = {}  # stream -> video id -> name in the reader
  for stream in streams:
    path = paths[stream.name]
    lone = path.suffix in _ARRAYS
    folder = path.parent if lone else path
    made = features.read_sidecar(stream.name, folder)
    _check_making(stream, made, folder)
    layouts[stream.name] = layout.parse(made['layout']) if made.get('layout') else None
    open_it = FolderReader if lone else features.open_features
    reader = readers[stream.name] = open_it(stream.name, path, None)
    names[stream.name] = {lone_id: path.stem} if lone else {name: name for name in reader.ids}
  required = [s.name for s in streams if not s.optional]

  def read() -> Iterator[Result]:
    for video_id in sorted({video_id for ids in names.values() for video_id in ids}):
      if lacking := [name for name in required if video_id not in names[name]]:
        yield video_id, DataError(f'no features of stream {", ".join(lacking)}')
        continue
      try:
        arrays = {
          s.name: check.load(readers[s.name], names[s.name][video_id], s, layouts[s.name])
          if video_id in names[s.name]
          else absent(s)
          for s in streams
        }
        yield video_id, Video(video_id, (), arrays)
      except DataError as error:
        yield video_id, error

  return read()


def _check_making(stream: Stream, made: Mapping, folder: pathlib.Path) -> None:
  """DataError if features say that they were made otherwise than those trained on."""
  for field in ('extractor', 'version', 'sampling'):
    trained, given = getattr(stream, field), made.get(field)
    if trained and given and trained != given:
      raise DataError(
        f'stream {stream.name!r}: the checkpoint was trained on {field} {trained!r}, '
        f'{folder} was made with {given!r}; extract it the same way'
      )


_ARRAYS = ('.npy', '.npz')


def _streams_given(streams: tuple[Stream, ...], inputs: str) -> dict[str, pathlib.Path] | None:
  """Stream name -> path, if the inputs are NAME=PATH or one feature file; else None."""
  parts = [part for part in inputs.split(',') if part]
  pairs = dict(
    part.split('=', 1) for part in parts if '=' in part and not pathlib.Path(part).exists()
  )
  if not pairs:
    if len(parts) > 1 or pathlib.Path(inputs).suffix not in (*_ARRAYS, '.h5'):
      return None
    if len(streams) > 1:
      wanted = ','.join(f'{s.name}=PATH' for s in streams)
      raise DataError(f'--inputs={inputs}: the model reads several streams; give {wanted}')
    pairs = {streams[0].name: inputs}
  elif len(pairs) < len(parts):
    raise DataError(f'--inputs={inputs}: give either NAME=FEATURES for each stream, or videos')
  known = [s.name for s in streams]
  missing = [name for name in known if name not in pairs]
  unknown = [name for name in pairs if name not in known]
  if missing or unknown:
    raise DataError(
      f'--inputs: the model reads the streams {", ".join(known)}'
      + (f'; missing: {", ".join(missing)}' if missing else '')
      + (f'; unknown: {", ".join(unknown)}' if unknown else '')
    )
  paths = {name: pathlib.Path(path) for name, path in pairs.items()}
  for name, path in paths.items():
    if not path.exists():
      raise DataError(f'--inputs: stream {name!r}: {path}: no such file or folder')
  return paths


def _from_files(streams: tuple[Stream, ...], inputs: str) -> Iterator[Result]:
  """Videos from files and folders, features made as the checkpoint's were."""
  from data_prep import extract, extraction, extractors, video

  try:
    wanted = {s.name: extractors.check(s.name, _description(s)) for s in streams}
    video.import_av()
    extractors.load(description['extractor'] for description in wanted.values())
  except extractors.ExtractorError as error:
    given = ','.join(f'{stream.name}=DIR' for stream in streams)
    raise DataError(f'{error.args[0]} (as --inputs={given})') from None
  except ModuleNotFoundError as error:
    raise DataError(error.args[0]) from None
  paths: list[pathlib.Path] = []
  for part in filter(None, inputs.split(',')):
    path = pathlib.Path(part)
    if path.is_dir():
      try:
        paths += extract.find_videos(path).values()
      except ValueError as error:
        raise DataError(str(error)) from None
    else:
      paths.append(path)  # a missing file is reported like a damaged one, and the rest go on

  def read() -> Iterator[Result]:
    for path in paths:
      notes: list[str] = []
      try:
        made = extraction.extract_video(path, wanted, notes)
        yield str(path), Video(path.stem, (), _as_stored(made, streams))
      except (video.VideoError, DataError) as error:
        yield str(path), error
      for note in notes:
        print(note, file=sys.stderr)

  return read()


def _description(stream: Stream) -> Mapping:
  return {k: getattr(stream, k) for k in ('extractor', 'version', 'sampling')}


def _as_stored(made: Mapping[str, np.ndarray], streams: Iterable[Stream]) -> dict[str, np.ndarray]:
  """Arrays in the dtype and axes of a record, as the data set held them in training.

  Raises:
    DataError: a video lacks a stream (sound) that every video had that the model learned from.
  """
  arrays = {}
  for stream in streams:
    array = made[stream.name].astype(stream.dtype)
    if not len(array) and not stream.optional:
      raise DataError(
        f'it has no sound, for the stream {stream.name!r}, and the model has learned from videos '
        f'with sound alone (a data set built with --optional={stream.name} may lack it)'
      )
    arrays[stream.name] = array[None] if stream.kind == 'vector' else array
  return arrays
