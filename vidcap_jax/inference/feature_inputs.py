"""Reads videos from features: files of them, or arrays in memory."""

import dataclasses
import difflib
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video, absent
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError

_SINGLE = ('.npy', '.npz')  # files of one video each, named by its id


@dataclasses.dataclass(frozen=True)
class Input:
  """A video among the inputs.

  Attributes:
    source: its file or folder, or the id of its features.
    video_id: the file's name without its ending, or the id of its features.
    load: reads it, and adds a line to the list for a file that is partly damaged, or that has more
      regions than the model reads. Any error means that the video can't be read.
  """

  source: str
  video_id: str
  load: Callable[[list[str]], Video]


def by_stream(
  provenance: FeatureProvenance, pairs: Sequence[tuple[str, str]]
) -> dict[str, pathlib.Path]:
  """Stream name -> path, from a pair of them for each stream.

  Raises:
    DataError: a stream is missing, unknown or given twice, or its path does not exist.
  """
  paths = {name: pathlib.Path(path) for name, path in pairs}
  reads = [stream.name for stream in provenance.streams]
  alignment = [stream.name for stream in provenance.alignment_streams]
  missing = [name for name in (*reads, *alignment) if name not in paths]
  unknown = [name for name in paths if name not in (*reads, *alignment)]
  twice = [name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i])]
  if missing or unknown or twice:
    raise DataError(
      f'the model reads the streams {", ".join(reads)}'
      + (f', whose frames depend on those of {", ".join(alignment)}' if alignment else '')
      + ''.join(
        f'; {what}: {", ".join(names)}'
        for what, names in (('missing', missing), ('unknown', unknown), ('given twice', twice))
        if names
      )
    )
  for name, path in paths.items():
    if not path.exists():
      raise DataError(f'stream {name!r}: {path}: no such file or folder')
  return paths


def from_files(provenance: FeatureProvenance, paths: Mapping[str, pathlib.Path]) -> list[Input]:
  """Videos from files of features, in the order of their ids.

  Args:
    provenance: of the streams that are read.
    paths: of each stream's features; the file of a single video gives its id.

  Raises:
    DataError: features that can't be opened, or were extracted differently.
  """
  from vidcap_jax.features.sources import read_features

  streams = (*provenance.streams, *provenance.alignment_streams)
  single_id = next((paths[s.name].stem for s in streams if _is_single(paths[s.name])), '')
  sources = [_open_stream(provenance, stream, paths[stream.name], single_id) for stream in streams]

  def load(video_id: str, notes: list[str]) -> Video:
    required = (s for s in sources if not s.stream.optional)
    if lacking := [s.stream.name for s in required if video_id not in s.names]:
      raise DataError(f'no features of stream {", ".join(lacking)}')
    features = read_features(video_id, sources, provenance.options.get('align', {}))
    notes += cut_regions(provenance.streams, video_id, features)
    return Video(video_id, (), features)

  ids = sorted({video_id for source in sources for video_id in source.names})
  return [Input(video_id, video_id, functools.partial(load, video_id)) for video_id in ids]


def cut_regions(
  streams: Sequence[Stream], video_id: str, features: Mapping[str, np.ndarray]
) -> list[str]:
  """A line for each stream with more regions of a frame than the model reads.

  Args:
    streams: that the model reads.
    video_id: of the video, for the lines.
    features: its arrays by stream; regions are (T, N, D), and all-zero ones are padding.
  """
  lines = []
  for stream in streams:
    most = max(1, stream.most_regions)
    array = features[stream.name]
    if stream.kind == 'regions' and array[:, most:].any():
      lines.append(
        f'{video_id}: stream {stream.name!r} has {array.shape[1]} regions in a frame, the model '
        f'reads the first {most}'
      )
  return lines


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


def from_arrays(provenance: FeatureProvenance, video_id: str, arrays: Mapping[str, Any]) -> Input:
  """A video from arrays in memory, by stream.

  The arrays are those that a file of features would hold for the build of the training data: its
  layout, limits and alignment apply to them. A stream that a video may lack can be left out, or
  None.
  """

  def load(notes: list[str]) -> Video:
    checked = _checked_arrays(provenance, video_id, arrays)
    features = as_built(provenance, video_id, checked)
    notes += cut_regions(provenance.streams, video_id, features)
    return Video(video_id, (), features)

  return Input(video_id, video_id, load)


def _checked_arrays(
  provenance: FeatureProvenance, video_id: str, arrays: Mapping[str, Any]
) -> dict[str, np.ndarray]:
  """The arrays as numpy, by stream.

  Raises:
    DataError: a stream that is missing or unknown, or what is no array.
  """
  streams = {s.name: s for s in (*provenance.streams, *provenance.alignment_streams)}
  arrays = {name: values for name, values in arrays.items() if values is not None}
  missing = [name for name, s in streams.items() if name not in arrays and not s.optional]
  unknown = [str(name) for name in arrays if name not in streams]
  if missing or unknown:
    near = [n for name in unknown for n in difflib.get_close_matches(name, streams, 1)]
    raise DataError(
      f'{video_id}: features: the model reads '
      + ', '.join(f'{s.name} {s.kind} {s.axes}' for s in streams.values())
      + (f'; missing: {", ".join(missing)}' if missing else '')
      + (f'; unknown: {", ".join(unknown)}' if unknown else '')
      + (f'; did you mean {" or ".join(near)}?' if near else '')
    )
  return {name: _array(f'{video_id}: stream {name!r}', array) for name, array in arrays.items()}


def _array(place: str, values: Any) -> np.ndarray:
  """Values as a numpy array; ``place``, the video and the stream, is for messages."""
  try:
    array = np.asarray(values)
  except (TypeError, ValueError) as error:  # rows of different lengths, or no numbers
    raise DataError(f'{place}: not an array: {error}') from None
  return array.astype(np.float32) if array.dtype.name == 'bfloat16' else array


def as_built(provenance: FeatureProvenance, where: str, arrays: Mapping) -> dict[str, np.ndarray]:
  """A video's arrays by stream, converted as the build of the training data did.

  Args:
    provenance: of the streams that are read.
    where: the video, for messages.
    arrays: with the axes of the training data's files; a stream that is left out is absent.

  Raises:
    DataError: an array without frames of a stream that every training video had; values that a
      data set can't hold; streams whose lengths differ and must not.
  """
  from vidcap_jax.features.formats import check, layout, lengths

  options = provenance.options
  features = {}
  for stream in (*provenance.streams, *provenance.alignment_streams):
    name = stream.name
    if name not in arrays:
      features[name] = absent(stream)
      continue
    axes = layout.declared_or_stored(stream.kind, options.get('layouts', {}).get(name))
    most_regions = options.get('max_regions', {}).get(name)
    place = f'{where}: stream {name!r}'
    features[name] = check.as_stored(arrays[name], place, stream, axes, most_regions)
  selection = (options.get(option, {}) for option in ('align', 'max_frames', 'blocks'))
  return lengths.select_frames(features, *selection)
