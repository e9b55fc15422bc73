"""Reads the videos that ``--inputs`` names, as a model needs them.

They are video files, pictures, or features.
"""

import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.picture_files import Source as VideoSource

MOST_PIECES = 32  # the most parts between commas that one file's name may have

# A video's place in the inputs, and the video or the reason why it can't be read.
Result = tuple[str, Video | str]


def videos_of(
  provenance: FeatureProvenance, inputs: str, pictures: str = 'auto', frame_rate: str | None = None
) -> Iterator[Result]:
  """Yields the videos that the inputs name; a bad video doesn't stop the others.

  Args:
    provenance: of the streams that are read.
    inputs: comma-separated video files, pictures, folders of them and lists of them (see
      ``video_folder``); or feature files and folders of them, of a single stream; or NAME=FEATURES
      for each stream.
    pictures: of ``video_folder.PICTURES``. ``auto``: numbered pictures of a folder are the frames
      of one video, others are single pictures.
    frame_rate: of videos whose frames are pictures, frames a second; needed to sample by time.

  Raises:
    DataError: no inputs, or a stream that is missing or can't be extracted as in training; a
      folder whose pictures may be frames or not.
  """
  streams = (*provenance.streams, *provenance.alignment_streams)
  parts = split(inputs)
  named = [part for part in parts if _is_named(part)]
  features = [part for part in parts if _holds_features(part)]
  if not parts:
    raise DataError('--inputs: give files or folders')
  if named:
    if len(named) < len(parts):
      raise DataError(f'--inputs={inputs}: give NAME=FEATURES for each stream, or only videos')
    return _from_features(provenance, _by_stream(provenance, named))
  if not features:
    return _from_files(provenance, _find_videos(parts, pictures, frame_rate))
  if len(streams) > 1:
    wanted = ','.join(f'{s.name}=PATH' for s in streams)
    raise DataError(f'--inputs={inputs}: the model reads several streams; give {wanted}')
  if len(features) < len(parts):
    other = next(part for part in parts if part not in features)
    raise DataError(
      f'--inputs: {features[0]} holds features, {other} does not; caption videos and features '
      'in separate commands'
    )
  results: list[Iterable[Result]] = []
  for path in map(pathlib.Path, parts):
    if path.exists():
      results.append(_from_features(provenance, {streams[0].name: path}))
    else:  # reported like a damaged file
      results.append([(str(path), 'no such file or folder')])
  return itertools.chain.from_iterable(results)


def sources_of(
  inputs: str, pictures: str = 'auto', frame_rate: str | None = None
) -> dict[str, VideoSource]:
  """Id -> file or frames of the videos that ``videos_of`` reads; {} for features."""
  parts = split(inputs)
  if any(_is_named(part) or _holds_features(part) for part in parts):
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
  return os.path.exists(part) or (_is_named(part) and os.path.exists(part.partition('=')[2]))


def _is_named(part: str) -> bool:
  """Whether the part is NAME=FEATURES, and not an existing file."""
  return '=' in part and not os.path.exists(part)


# ---------------------------------------------------------------- features

_SINGLE = ('.npy', '.npz')  # files of one video each, named by its id


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


def _by_stream(provenance: FeatureProvenance, named: Sequence[str]) -> dict[str, pathlib.Path]:
  """Stream name -> path, from NAME=PATH for each.

  Raises:
    DataError: a stream is missing, unknown or given twice, or its path does not exist.
  """
  pairs = [part.split('=', 1) for part in named]
  paths = {name: pathlib.Path(path) for name, path in pairs}
  reads = [stream.name for stream in provenance.streams]
  alignment = [stream.name for stream in provenance.alignment_streams]
  missing = [name for name in (*reads, *alignment) if name not in paths]
  unknown = [name for name in paths if name not in (*reads, *alignment)]
  twice = [name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i])]
  if missing or unknown or twice:
    raise DataError(
      f'--inputs: the model reads the streams {", ".join(reads)}'
      + (f', whose frames depend on those of {", ".join(alignment)}' if alignment else '')
      + ''.join(
        f'; {what}: {", ".join(names)}'
        for what, names in (('missing', missing), ('unknown', unknown), ('given twice', twice))
        if names
      )
    )
  for name, path in paths.items():
    if not path.exists():
      raise DataError(f'--inputs: stream {name!r}: {path}: no such file or folder')
  return paths


def _from_features(
  provenance: FeatureProvenance, paths: Mapping[str, pathlib.Path]
) -> Iterator[Result]:
  """Videos from features, in the order of their ids; the file of a single video gives its id."""
  from vidcap_jax.features.sources import read_features

  streams = (*provenance.streams, *provenance.alignment_streams)
  single_id = next((paths[s.name].stem for s in streams if _is_single(paths[s.name])), '')
  sources = [_open_stream(provenance, stream, paths[stream.name], single_id) for stream in streams]

  def load(video_id: str) -> Video:
    required = (s for s in sources if not s.stream.optional)
    if lacking := [s.stream.name for s in required if video_id not in s.names]:
      raise DataError(f'no features of stream {", ".join(lacking)}')
    return Video(
      video_id, (), read_features(video_id, sources, provenance.options.get('align', {}))
    )

  ids = sorted({video_id for source in sources for video_id in source.names})
  return (_load(video_id, load, video_id) for video_id in ids)


def _is_single(path: pathlib.Path) -> bool:
  return path.is_file() and path.suffix.lower() in _SINGLE


def _open_stream(provenance: FeatureProvenance, stream: Stream, path: pathlib.Path, single_id: str):
  """Opens a stream's features as a ``sources.Source``, with the options of the build."""
  from vidcap_jax.features import formats
  from vidcap_jax.features.formats import folder, h5, layout
  from vidcap_jax.features.sources import Source

  options = {option: values.get(stream.name) for option, values in provenance.options.items()}
  single = _is_single(path)
  location = path.parent if single else path
  sidecar = formats.read_sidecar(stream.name, location)
  _check_provenance(stream, sidecar, location)
  key = options.get('keys')
  if single:  # one entry of its folder
    reader: formats.FeatureReader = folder.FolderReader(stream.name, path, key)
  else:
    first = options.get('rows') if path.suffix.lower() in h5.H5_SUFFIXES else None
    try:
      reader = formats.open_features(stream.name, path, key, first, options.get('readers'))
    except DataError:
      if not any((key, first, options.get('readers'))):
        raise
      # The options are for the training data's files. Without them, files of another format open,
      # and for others the error is about the file itself.
      reader = formats.open_features(stream.name, path)
  return Source(
    stream,
    reader,
    {single_id: path.stem} if single else {name: name for name in reader.ids},
    # The sidecar describes these features; the build's option described the training data's.
    layout.declared_or_stored(stream.kind, sidecar.get('layout') or options.get('layouts')),
    options.get('max_frames'),
    options.get('max_regions'),
    options.get('blocks'),
  )


def _check_provenance(stream: Stream, sidecar: Mapping, folder: pathlib.Path) -> None:
  """Raises DataError if the features were extracted differently from the training data's."""
  from vidcap_jax.features import extractors

  for field in ('extractor', 'version', 'sampling'):
    trained, given = getattr(stream, field), sidecar.get(field)
    if field == 'version':
      trained, given = map(extractors.network_version, (trained, given))
    if trained and given and trained != given:
      raise DataError(
        f'stream {stream.name!r}: the checkpoint was trained on {field} {trained!r}, '
        f'{folder} was extracted with {given!r}; extract it the same way'
      )


# ---------------------------------------------------------------- video files and pictures


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


def _from_files(
  provenance: FeatureProvenance, sources: Sequence[tuple[str, VideoSource]]
) -> Iterator[Result]:
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
    raise DataError(f'{error.args[0]} (as --inputs={inputs})') from None
  except ModuleNotFoundError as error:
    raise DataError(error.args[0]) from None

  def load(video_id: str, source: VideoSource, notes: list[str]) -> Video:
    arrays = stream_folders.extract_features(source, wanted, notes)
    return Video(video_id, (), _as_built(provenance, str(source), arrays))

  def read() -> Iterator[Result]:
    for video_id, source in sources:
      notes: list[str] = []
      yield _load(str(source), load, video_id, source, notes)
      for note in notes:
        print(note, file=sys.stderr)

  return stream_folders.stop_on_call_errors(
    read(), lambda result: result if isinstance(result, str) else ''
  )


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


def _load(where: str, load: Callable[..., Video], *arguments) -> Result:
  """The video that ``load`` returns, or the reason why it raised."""
  from vidcap_jax.features import stream_folders

  try:
    return where, load(*arguments)
  except Exception as error:
    return where, stream_folders.failure_reason(error)


def _description(stream: Stream) -> Mapping:
  return {k: getattr(stream, k) for k in ('extractor', 'version', 'sampling')}


def _as_built(provenance: FeatureProvenance, path: str, arrays: Mapping) -> dict[str, np.ndarray]:
  """Extracted arrays by stream, converted as the build of the training data did.

  Raises:
    DataError: the video lacks a stream (sound) that every training video had; values that a data
      set can't hold; streams whose lengths differ and must not.
  """
  from vidcap_jax.features.formats import check, layout, lengths

  options = provenance.options
  features = {}
  for stream in (*provenance.streams, *provenance.alignment_streams):
    name, array = stream.name, arrays[stream.name]
    if not len(array) and not stream.optional:
      raise DataError(
        f'the video has no sound for the stream {name!r}, and all training videos had; a model can '
        f'do without if its data set is built with --optional={name}'
      )
    axes = layout.declared_or_stored(stream.kind, options.get('layouts', {}).get(name))
    most_regions = options.get('max_regions', {}).get(name)
    where = f'{path}: stream {name!r}'
    features[name] = check.as_stored(array, where, stream, axes, most_regions)
  selection = (options.get(option, {}) for option in ('align', 'max_frames', 'blocks'))
  return lengths.select_frames(features, *selection)
