"""Finds and reads the videos that ``--inputs`` names, as a model needs them.

They are video files, pictures, or features.
"""

import functools
import os
import pathlib
import sys
from collections.abc import Iterator, Mapping, Sequence

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.picture_files import Source as VideoSource
from vidcap_jax.inference import feature_inputs
from vidcap_jax.inference.feature_inputs import Input

MOST_PIECES = 32  # the most parts between commas that one file's name may have

# A video's place in the inputs, and the video or the reason why it can't be read.
Outcome = tuple[str, Video | str]


def videos_of(
  provenance: FeatureProvenance, inputs: str, pictures: str = 'auto', frame_rate: str | None = None
) -> Iterator[Outcome]:
  """Yields the videos that the inputs name; a bad video doesn't stop the others.

  Args:
    provenance: of the streams that are read.
    inputs: the parts of ``find_inputs``, with commas between them.
    pictures, frame_rate: see ``find_inputs``.

  Raises:
    DataError: as ``find_inputs``.
  """
  from vidcap_jax.features import stream_folders

  found = find_inputs(provenance, split(inputs), pictures, frame_rate)

  def read() -> Iterator[Outcome]:
    for each in found:
      notes: list[str] = []
      yield each.source, read_input(each, notes)
      for note in notes:
        print(note, file=sys.stderr)

  return stream_folders.stop_on_call_errors(
    read(), lambda result: result if isinstance(result, str) else ''
  )


def read_input(each: Input, notes: list[str]) -> Video | str:
  """The video of an input, or the reason why it can't be read; ``notes`` as for ``Input.load``."""
  from vidcap_jax.features import stream_folders

  try:
    return each.load(notes)
  except Exception as error:
    return stream_folders.failure_reason(error)


def find_inputs(
  provenance: FeatureProvenance,
  parts: Sequence[str],
  pictures: str = 'auto',
  frame_rate: str | None = None,
) -> list[Input]:
  """The videos that files, folders and lists name; none is read yet.

  Args:
    provenance: of the streams that are read.
    parts: video files, pictures, folders of them and lists of them (see ``video_folder``); or
      feature files and folders of them, of a single stream; or NAME=FEATURES for each stream.
    pictures: of ``video_folder.PICTURES``. ``auto``: numbered pictures of a folder are the frames
      of one video, others are single pictures.
    frame_rate: of videos whose frames are pictures, frames a second; needed to sample by time.

  Raises:
    DataError: no inputs, or a stream that is missing or can't be extracted as in training; a
      folder whose pictures may be frames or not.
  """
  streams = (*provenance.streams, *provenance.alignment_streams)
  named = [part for part in parts if is_named(part)]
  features = [part for part in parts if _holds_features(part)]
  if not parts:
    raise DataError('--inputs: give files or folders')
  if named:
    if len(named) < len(parts):
      raise DataError(
        f'--inputs={",".join(parts)}: give NAME=FEATURES for each stream, or only videos'
      )
    pairs = [(name, path) for name, _, path in (part.partition('=') for part in named)]
    return feature_inputs.from_files(provenance, feature_inputs.by_stream(provenance, pairs))
  if not features:
    return _from_videos(provenance, _find_videos(parts, pictures, frame_rate))
  if len(streams) > 1:
    wanted = ','.join(f'{s.name}=PATH' for s in streams)
    raise DataError(
      f'--inputs={",".join(parts)}: the model reads several streams; give {wanted} '
      '(in Python, features= with a path for each)'
    )
  if len(features) < len(parts):
    other = next(part for part in parts if part not in features)
    raise DataError(
      f'--inputs: {features[0]} holds features, {other} does not; caption videos and features '
      'in separate commands'
    )
  found: list[Input] = []
  for path in map(pathlib.Path, parts):
    if path.exists():
      found += feature_inputs.from_files(provenance, {streams[0].name: path})
    else:  # reported like a damaged file
      found.append(Input(str(path), path.stem, _no_such_file))
  return found


def _no_such_file(notes: list[str]) -> Video:
  raise DataError('no such file or folder')


def sources_of(
  inputs: str, pictures: str = 'auto', frame_rate: str | None = None
) -> dict[str, VideoSource]:
  """Id -> file or frames of the videos that ``videos_of`` reads; {} for features."""
  parts = split(inputs)
  if any(is_named(part) or _holds_features(part) for part in parts):
    return {}
  return dict(_find_videos(parts, pictures, frame_rate))


def example_of(provenance: FeatureProvenance) -> str:
  """What ``--inputs`` may be for a model: FILES if it reads video files, else NAME=DIR,…"""
  from vidcap_jax.features import extractors

  streams = (*provenance.streams, *provenance.alignment_streams)
  try:
    for stream in streams:
      extractors.check(stream.name, _description(stream))
  except extractors.ExtractorError:
    return ','.join(f'{stream.name}=DIR' for stream in streams)
  return 'FILES'


def split(inputs: str) -> list[str]:
  """Splits the inputs at commas, except at those in the name of an existing file."""
  pieces, parts = inputs.split(','), []
  while pieces:
    runs = range(1, 1 + min(len(pieces), MOST_PIECES))
    n = next((n for n in runs if _exists(','.join(pieces[:n]))), 1)
    parts.append(','.join(pieces[:n]))
    del pieces[:n]
  return [part for part in parts if part]


def _exists(part: str) -> bool:
  return os.path.exists(part) or (is_named(part) and os.path.exists(part.partition('=')[2]))


def is_named(part: str) -> bool:
  """Whether the part is NAME=FEATURES, and not an existing file."""
  return '=' in part and not os.path.exists(part)


def _holds_features(part: str) -> bool:
  """Whether a file, by its suffix, or a folder holds features; a folder with videos does not."""
  from vidcap_jax.features import formats, video_folder
  from vidcap_jax.features.formats import decode, folder

  path = pathlib.Path(part)
  if not os.path.isdir(part):
    return path.suffix.lower() in (*decode.SUFFIXES, *formats.SUFFIXES)
  suffixes = {os.path.splitext(file)[1].lower() for file in folder.files_below(path)}
  if suffixes & {*video_folder.SUFFIXES}:
    return False
  return bool(suffixes & {*decode.SUFFIXES}) or any(
    form.matches(path) for form in formats.FORMS[:-1]
  )


def _find_videos(
  parts: Sequence[str], pictures: str, frame_rate: str | None
) -> list[tuple[str, VideoSource]]:
  """(id, source) of the videos that files, folders and lists name."""
  from vidcap_jax.features import video_folder

  rate = video_folder.parse_frame_rate(frame_rate)
  rules = video_folder.PictureRules(pictures, rate, top_may_be_frames=True)
  videos: list[tuple[str, VideoSource]] = []
  for path in map(pathlib.Path, parts):
    if path.is_dir() or (path.is_file() and path.suffix.lower() in video_folder.LISTS):
      videos += video_folder.find_videos(path, rules).items()
    else:
      videos.append((path.stem, path))  # a missing file is reported like a damaged one
  return videos


def _from_videos(
  provenance: FeatureProvenance, sources: Sequence[tuple[str, VideoSource]]
) -> list[Input]:
  """Videos from their files; features are extracted as those of the training data were."""
  from vidcap_jax.features import extractors, picture_files, stream_folders, video_decoder

  streams = (*provenance.streams, *provenance.alignment_streams)
  try:
    wanted = {s.name: extractors.check(s.name, _description(s)) for s in streams}
    _note_older_frames(streams, wanted)
    picture_files.check_frame_rate([source for _, source in sources], wanted)
    video_decoder.import_av()
    if any(picture_files.frames_of(source) for _, source in sources):
      picture_files.import_pillow()
    extractors.load(description['extractor'] for description in wanted.values())
  except extractors.ExtractorError as error:
    inputs = ','.join(f'{stream.name}=DIR' for stream in streams)
    raise DataError(f'{error.args[0]} (--inputs={inputs}; in Python features=)') from None
  except ModuleNotFoundError as error:
    raise DataError(error.args[0]) from None

  def load(video_id: str, source: VideoSource, notes: list[str]) -> Video:
    arrays = stream_folders.extract_features(source, wanted, notes)
    for stream in streams:
      if not len(arrays[stream.name]) and not stream.optional:
        raise DataError(
          f'the video has no sound for the stream {stream.name!r}, and all training videos had; a '
          f'model can do without if its data set is built with --optional={stream.name}'
        )
    features = feature_inputs.as_built(provenance, str(source), arrays)
    notes += feature_inputs.cut_regions(provenance.streams, video_id, features)
    return Video(video_id, (), features)

  return [Input(str(s), video_id, functools.partial(load, video_id, s)) for video_id, s in sources]


def _note_older_frames(streams: Sequence[Stream], wanted: Mapping[str, Mapping]) -> None:
  """Reports streams that were extracted before frames were chosen by exact time stamps."""
  older = [s.name for s in streams if s.version and s.version != wanted[s.name]['version']]
  if older:
    version = wanted[older[0]]['version']
    print(
      f'note: the model was trained on features of stream {", ".join(older)} extracted before '
      f'version {version!r}, which reads other frames of some files (docs/video.md, Time stamps)',
      file=sys.stderr,
    )


def _description(stream: Stream) -> Mapping:
  return {k: getattr(stream, k) for k in ('extractor', 'version', 'sampling')}
