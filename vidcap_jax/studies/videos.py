"""The videos of a study: chosen from a data set or given as files, with their pictures."""

import argparse
import dataclasses
import difflib
from collections.abc import Callable, Container, Mapping, Sequence

import numpy as np

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import pipeline, provenance
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.schema import Manifest, Stream, read_manifest
from vidcap_jax.errors import DataError, VideoError
from vidcap_jax.evaluation.evaluate import check_streams
from vidcap_jax.features import frame_times, video_folder, video_stills
from vidcap_jax.features.frame_times import FrameTimes
from vidcap_jax.features.picture_files import FrameFiles, Source
from vidcap_jax.inference import inputs

FEW = 4  # videos of a split that are shown if no ids are given
_LEAST = -0.1  # of the coordinates of boxes; some detectors' boxes reach a little over the edge


@dataclasses.dataclass(frozen=True)
class Chosen:
  """A video of a study.

  Attributes:
    video: its features, and its references if it has any.
    source: its file or frames; None where none is at hand.
    times: of the rows of its features by stream, where known.
    boxes: (T, N, 4) left, top, right and bottom of the regions as fractions of the frame, by the
      rows of stored features; None if the data set has none.
  """

  video: Video
  source: Source | None = None
  times: Mapping[str, FrameTimes] = dataclasses.field(default_factory=dict)
  boxes: np.ndarray | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
  """Adds the flags that choose a checkpoint and videos, and find their pictures."""
  add = parser.add_argument
  add('--checkpoint', required=True, metavar='DIR', help='a workdir or step folder')
  add('--data', metavar='DIR', help='data set folder (default: the one trained on)')
  add('--split', default='test', help='of the data set (default: %(default)s)')
  add('--ids', metavar='ID,…', help=f'videos of the split (default: the first {FEW})')
  add('--videos', metavar='DIR', help='folder of the video files or frames, named by id')
  add('--boxes', metavar='STREAM', help="of the data set: the regions' coordinates, see docs")
  add('--inputs', metavar='FILE,…', help='videos or features in place of a data set')
  add('--pictures', default='auto', help='how pictures among the inputs are read, see predict')
  add('--frame_rate', metavar='N', help='of videos whose frames are pictures')
  add('--decode', action='append', default=[], metavar='KEY=VALUE', help='a decoding setting')


def choose(
  options: argparse.Namespace, restored: Restored, log: Callable[[str], None]
) -> tuple[list[Chosen], int]:
  """The videos that the flags choose, for a checkpoint, and how many inputs could not be read.

  Raises:
    DataError: no such split, video or file; data that does not fit the checkpoint.
  """
  if options.inputs:
    if options.ids or options.data or options.boxes:
      raise DataError('--inputs names the videos: leave out --ids, --data and --boxes')
    boxes, (videos, failed) = '', _from_inputs(options, restored, log)
  else:
    directory = restored.data_folder(options.data)
    manifest = read_manifest(directory)
    check_streams(restored, manifest, directory)
    boxes = boxes_stream(manifest, options.boxes)
    videos, failed = from_split(directory, options.split, options.ids), 0
  sources = _sources(options, [video.video_id for video in videos], log)
  made = provenance.from_dict(restored.meta.get('making', {}), restored.streams)
  chosen = [_with_times(made, v, sources.get(v.video_id), restored, log) for v in videos]
  if boxes:
    chosen = [_with_boxes(c, boxes, restored, log) for c in chosen]
  return chosen, failed


def _with_boxes(
  chosen: Chosen, name: str, restored: Restored, log: Callable[[str], None]
) -> Chosen:
  """The video with its boxes, if they fit its regions."""
  try:
    return dataclasses.replace(chosen, boxes=boxes_of(chosen.video, name, restored.streams))
  except DataError as error:
    log(str(error))
    return chosen


def boxes_of(video: Video, name: str, streams: Sequence[Stream]) -> np.ndarray:
  """The boxes of a video's regions, see ``Chosen``.

  Args:
    video: with features.
    name: of the stream with the boxes, see ``boxes_stream``.
    streams: that a model reads.

  Raises:
    DataError: other frames than those of the regions, or coordinates in pixels.
  """
  boxes = video.features[name][..., :4]
  for stream in streams:
    regions = len(video.features[stream.name])
    if stream.kind == 'regions' and regions != len(boxes):
      raise DataError(
        f'{video.video_id}: no boxes: {len(boxes)} frames of {name!r}, {regions} of the regions '
        f'{stream.name!r}'
      )
  if boxes.size and not _LEAST <= boxes.min() <= boxes.max() <= 1 - _LEAST:
    raise DataError(
      f'{video.video_id}: no boxes: the coordinates of {name!r} are from {boxes.min():g} to '
      f'{boxes.max():g}; store fractions of the frame, from 0 to 1'
    )
  return boxes


def boxes_stream(manifest: Manifest, given: str | None) -> str:
  """The stream with the coordinates of regions; '' if there is none.

  Args:
    manifest: of the data set.
    given: its name; None: a stream that a detector's extractor of boxes made.

  Raises:
    DataError: the data set has no such stream, or not one of boxes.
  """
  if given is not None:
    try:
      stream = manifest.stream(given)
    except DataError as error:
      raise DataError(f'--boxes={given}: {error}') from None
    if stream.kind != 'regions' or stream.channels < 4:
      raise DataError(
        f'--boxes={given}: a {stream.kind} {stream.axes}; regions with left, top, right and bottom '
        'as fractions of the frame are needed, (T, N, 4) or wider'
      )
    return given
  made = (s.name for s in manifest.streams if (s.extractor or '').endswith('/boxes'))
  return next(made, '')


def split_ids(ids: str, known: Container[str]) -> list[str]:
  """The ids that a flag names, with commas between them; an id may itself have commas."""
  return [ids] if ids in known else ids.split(',')


def from_split(directory: str, split: str, ids: str | None) -> list[Video]:
  """Videos of a split in the order of the ids, see ``split_ids``; without ids the first few.

  Raises:
    DataError: no such split or video; names similar ones.
  """
  manifest = read_manifest(directory)
  if split not in manifest.splits:
    raise DataError(
      f'--split={split}: {directory} has no such split; it has: {", ".join(manifest.splits)}'
    )
  source = open_split(directory, split)
  if not ids:
    return [source[i] for i in range(min(FEW, len(source)))]
  places = {video.video_id: i for i, video in enumerate(pipeline.read_texts(source))}
  chosen = split_ids(ids, places)
  for video_id in chosen:
    if video_id not in places:
      near = difflib.get_close_matches(video_id, places) or list(places)[:3]
      raise DataError(
        f'--ids: split {split!r} of {directory} has no video {video_id!r}; it has {len(places)}, '
        f'such as {", ".join(near)}'
      )
  return [source[places[video_id]] for video_id in chosen]


def _from_inputs(
  options: argparse.Namespace, restored: Restored, log: Callable[[str], None]
) -> tuple[list[Video], int]:
  """The videos that can be read, and how many can't."""
  made = provenance.from_dict(restored.meta.get('making', {}), restored.streams)
  videos, failed = [], 0
  for where, video in inputs.videos_of(made, options.inputs, options.pictures, options.frame_rate):
    if isinstance(video, str):
      failed += 1
      log(video if video.startswith(f'{where}: ') else f'{where}: {video}')
    else:
      videos.append(video)
  if not videos:
    raise DataError(f'--inputs={options.inputs}: none of these videos can be read')
  return videos, failed


def _sources(
  options: argparse.Namespace, ids: Sequence[str], log: Callable[[str], None]
) -> dict[str, Source]:
  """The files of the videos by id: the inputs themselves, or those in --videos."""
  found: dict[str, Source] = {}
  if options.inputs:
    found |= inputs.sources_of(options.inputs, options.pictures, options.frame_rate)
  if options.videos:
    rate = video_folder.parse_frame_rate(options.frame_rate)
    for video_id, source in video_stills.find_sources(options.videos, ids).items():
      if isinstance(source, FrameFiles):
        source = dataclasses.replace(source, rate=rate)
      found[video_id] = source
  missing = [video_id for video_id in ids if video_id not in found]
  if missing:
    where = options.videos or 'no --videos=DIR'
    log(f'no pictures of {len(missing)} of {len(ids)} videos ({where}): {", ".join(missing[:5])}')
  return found


def _with_times(
  made: provenance.FeatureProvenance,
  video: Video,
  source: Source | None,
  restored: Restored,
  log: Callable[[str], None],
) -> Chosen:
  rows = {
    stream.name: len(video.features[stream.name])
    for stream in restored.streams
    if stream.kind != 'vector'
  }
  try:
    times = frame_times.times_of(made, rows, source)
  except VideoError as error:
    log(f'{video.video_id}: no pictures: {error}')
    source, times = None, frame_times.times_of(made, rows, None)
  return Chosen(video, source, times)
