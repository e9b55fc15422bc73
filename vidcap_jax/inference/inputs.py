"""Videos from what ``--inputs`` names: video files, or features of them, brought into the form that
a model was trained on."""

import itertools
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError

MOST_PIECES = 32  # of a file's name with commas in it

# Where a video is from, and it, or why it can't be had.
Result = tuple[str, Video | str]


def videos_of(provenance: FeatureProvenance, inputs: str) -> Iterator[Result]:
  """The videos that the inputs name, one after the other; what is wrong with one costs no other.

  Args:
    provenance: of the streams that are read.
    inputs: comma-separated video files and folders of them; or feature files and folders of them,
      of a single stream; or NAME=FEATURES for each stream.

  Raises:
    DataError: nothing there, a stream that is missing, or one that can't be made as in training.
  """
  streams = (*provenance.streams, *provenance.alignment_streams)
  parts = split(inputs)
  named = [part for part in parts if _is_named(part)]
  features = [part for part in parts if _holds_features(part)]
  if not parts:
    raise DataError('--inputs: no file or folder is named')
  if named:
    if len(named) < len(parts):
      raise DataError(f'--inputs={inputs}: give either NAME=FEATURES for each stream, or videos')
    return _from_features(provenance, _by_stream(provenance, named))
  if not features:
    return _from_files(provenance, parts)
  if len(streams) > 1:
    wanted = ','.join(f'{s.name}=PATH' for s in streams)
    raise DataError(f'--inputs={inputs}: the model reads several streams; give {wanted}')
  if len(features) < len(parts):
    other = next(part for part in parts if part not in features)
    raise DataError(
      f'--inputs: {features[0]} holds features, {other} does not; give videos and features in '
      'commands of their own'
    )
  opened: list[Iterator[Result]] = []
  for part in parts:
    path = pathlib.Path(part)
    missing = iter([(part, 'no such file or folder')])  # as one that is damaged; the rest go on
    opened.append(_from_features(provenance, {streams[0].name: path}) if path.exists() else missing)
  return itertools.chain.from_iterable(opened)


def split(inputs: str) -> list[str]:
  """The inputs between commas; a comma in the name of a file that is there does not part it."""
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
  """Whether it is NAME=FEATURES, and no file's name."""
  return '=' in part and not os.path.exists(part)


# ---------------------------------------------------------------- features

_LONE = ('.npy', '.npz')  # Of one video, named by the file.


def _holds_features(part: str) -> bool:
  """Whether a path's ending, or what is in a folder, says features; videos go before them."""
  from vidcap_jax.features import formats, video_folder
  from vidcap_jax.features.formats import decode, folder

  path = pathlib.Path(part)
  if not os.path.isdir(part):
    return path.suffix.lower() in (*decode.SUFFIXES, *formats.SUFFIXES)
  ends = {os.path.splitext(file)[1].lower() for file in folder.files_below(path)}
  if ends & {*video_folder.SUFFIXES}:
    return False
  return bool(ends & {*decode.SUFFIXES}) or any(form.matches(path) for form in formats.FORMS[:-1])


def _by_stream(provenance: FeatureProvenance, named: Sequence[str]) -> dict[str, pathlib.Path]:
  """Stream name -> path, from NAME=PATH for each.

  Raises:
    DataError: a stream is missing or unknown or given twice, or its path is not there.
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
  """Videos from features, by id; a file of one video alone is named by the file."""
  from vidcap_jax.features.sources import read_features

  streams = (*provenance.streams, *provenance.alignment_streams)
  lone_id = next((paths[s.name].stem for s in streams if _is_lone(paths[s.name])), '')
  sources = [_source(provenance, stream, paths[stream.name], lone_id) for stream in streams]

  def load(video_id: str) -> Video:
    required = (s for s in sources if not s.stream.optional)
    if lacking := [s.stream.name for s in required if video_id not in s.names]:
      raise DataError(f'no features of stream {", ".join(lacking)}')
    return Video(
      video_id, (), read_features(video_id, sources, provenance.options.get('align', {}))
    )

  ids = sorted({video_id for source in sources for video_id in source.names})
  return (_tried(video_id, load, video_id) for video_id in ids)


def _is_lone(path: pathlib.Path) -> bool:
  return path.is_file() and path.suffix.lower() in _LONE


def _source(provenance: FeatureProvenance, stream: Stream, path: pathlib.Path, lone_id: str):
  """A stream's features as the build takes them: a ``Source``."""
  from vidcap_jax.features import formats
  from vidcap_jax.features.formats import folder, h5, layout
  from vidcap_jax.features.sources import Source

  of = {option: names.get(stream.name) for option, names in provenance.options.items()}
  lone = _is_lone(path)
  place = path.parent if lone else path
  made = formats.read_sidecar(stream.name, place)
  _check_provenance(stream, made, place)
  key = of.get('keys')
  if lone:  # one entry of its folder
    reader: formats.FeatureReader = folder.FolderReader(stream.name, path, key)
  else:
    first = of.get('rows') if path.suffix.lower() in h5.H5_SUFFIXES else None
    try:
      reader = formats.open_features(stream.name, path, key, first, of.get('readers'))
    except DataError:
      if not any((key, first, of.get('readers'))):
        raise
      # Kept in another way than those trained on; what is to be told is what is wrong with these.
      reader = formats.open_features(stream.name, path)
  return Source(
    stream,
    reader,
    {lone_id: path.stem} if lone else {name: name for name in reader.ids},
    # What is said beside the features is of these, what the build was told is of those it read.
    layout.declared_or_stored(stream.kind, made.get('layout') or of.get('layouts')),
    of.get('max_frames'),
    of.get('max_regions'),
    of.get('blocks'),
  )


def _check_provenance(stream: Stream, made: Mapping, folder: pathlib.Path) -> None:
  """DataError if features say that they were made otherwise than those trained on."""
  for field in ('extractor', 'version', 'sampling'):
    trained, given = getattr(stream, field), made.get(field)
    if trained and given and trained != given:
      raise DataError(
        f'stream {stream.name!r}: the checkpoint was trained on {field} {trained!r}, '
        f'{folder} was made with {given!r}; extract it the same way'
      )


# ---------------------------------------------------------------- video files


def _from_files(provenance: FeatureProvenance, parts: Sequence[str]) -> Iterator[Result]:
  """Videos from files and folders, their features made as those trained on."""
  from vidcap_jax.features import extractors, stream_folders, video, video_folder

  streams = (*provenance.streams, *provenance.alignment_streams)
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
  for part in parts:
    path = pathlib.Path(part)
    if path.is_dir():
      try:
        paths += video_folder.find_videos(path).values()
      except ValueError as error:
        raise DataError(str(error)) from None
    else:
      paths.append(path)  # a missing file is reported like a damaged one, and the rest go on

  def load(path: pathlib.Path, notes: list[str]) -> Video:
    return _as_built(provenance, path, stream_folders.extract_features(path, wanted, notes))

  def read() -> Iterator[Result]:
    for path in paths:
      notes: list[str] = []
      yield _tried(str(path), load, path, notes)
      for note in notes:
        print(note, file=sys.stderr)

  return stream_folders.stop_on_call_errors(
    read(), lambda result: result if isinstance(result, str) else ''
  )


def _tried(where: str, load: Callable[..., Video], *of) -> Result:
  """A video, or why it can't be had, whatever the reason."""
  from vidcap_jax.features import stream_folders

  try:
    return where, load(*of)
  except Exception as error:
    return where, stream_folders.failure_reason(error)


def _description(stream: Stream) -> Mapping:
  return {k: getattr(stream, k) for k in ('extractor', 'version', 'sampling')}


def _as_built(provenance: FeatureProvenance, path: pathlib.Path, arrays: Mapping) -> Video:
  """A video with its extracted arrays brought into records' form as the build does.

  Raises:
    DataError: it lacks a stream (sound) that every video had that the model learned from; values
      that the data set can't hold; streams of different length that may not be.
  """
  from vidcap_jax.features.formats import check, layout, lengths

  of = {option: provenance.options.get(option, {}) for option in ('layouts', 'max_regions')}
  features = {}
  for stream in (*provenance.streams, *provenance.alignment_streams):
    name, found = stream.name, arrays[stream.name]
    if not len(found) and not stream.optional:
      raise DataError(
        f'it has no sound, for the stream {name!r}, and the model has learned from videos with '
        f'sound alone (a data set built with --optional={name} may lack it)'
      )
    axes = layout.declared_or_stored(stream.kind, of['layouts'].get(name))
    where = f'{path}: stream {name!r}'
    features[name] = check.as_stored(found, where, stream, axes, of['max_regions'].get(name))
  kept = (provenance.options.get(option, {}) for option in ('align', 'max_frames', 'blocks'))
  return Video(path.stem, (), lengths.select_frames(features, *kept))
