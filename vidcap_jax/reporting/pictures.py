"""Pictures of the videos of a report: a strip of each video, and the frames of its attention."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import provenance
from vidcap_jax.data.records import Video
from vidcap_jax.errors import DataError, VideoError
from vidcap_jax.features import frame_times, video_stills
from vidcap_jax.features.picture_files import Source, is_picture
from vidcap_jax.features.video import clock_of
from vidcap_jax.reporting.attention import Frame
from vidcap_jax.studies.panels import SIZE, Gallery, load_gallery
from vidcap_jax.studies.videos import Chosen, boxes_of

FOLDER = 'pictures'
_STRIP = 4  # frames of a strip
_ROWS = 96  # pixels of the shorter side of its frames
_SINGLE = 320  # pixels of the shorter side of a frame that is the only one


def write_strip(
  folder: pathlib.Path, number: int, source: Source, notes: list[str]
) -> tuple[int, int]:
  """Writes some frames of a video beside each other as one picture.

  Args:
    folder: of the report.
    number: of the video.
    source: its file, frames or picture.
    notes: a line is added for a partly damaged file.

  Returns:
    The width and the height of the picture, in pixels.

  Raises:
    VideoError: no frame can be decoded.
  """
  times = [0.0]
  if not (isinstance(source, pathlib.Path) and is_picture(source)):
    length = float(clock_of(source).length)
    times = [length * (i + 0.5) / _STRIP for i in range(_STRIP)]
  images = video_stills.pictures_at(source, times, _ROWS, whole=True, notes=notes)
  image = np.concatenate(images, axis=1)
  (folder / strip_name(number)).write_bytes(video_stills.jpeg(image))
  rows, columns, _ = image.shape
  return columns, rows


def strip_name(number: int) -> str:
  """The file of a video's strip; names come from numbers, as ids may have any characters."""
  return f'{FOLDER}/{number:06}.jpg'


class FramePictures:
  """The times, pictures and boxes of the frames that a model has read of a video."""

  def __init__(
    self, restored: Restored, folder: pathlib.Path, boxes: str = '', notes: list[str] | None = None
  ):
    """What all videos share.

    Args:
      restored: the checkpoint.
      folder: of the report.
      boxes: the stream with the boxes of regions; '' for none.
      notes: a line is added for each video with missing pictures or boxes.
    """
    self._provenance = provenance.from_dict(restored.meta.get('making', {}), restored.streams)
    self._streams = restored.streams
    self._extractors = {stream.name: stream.extractor for stream in restored.streams}
    self._folder, self._boxes = folder, boxes
    self._notes = [] if notes is None else notes

  def write(
    self, number: int, video: Video, source: Source | None, frames: Sequence[Frame]
  ) -> Mapping[Frame, dict[str, Any]]:
    """What is known of each frame: its time, written picture, and boxes; None where it is not.

    Args:
      number: of the video, for file names.
      video: with features.
      source: its file, frames or picture; None for no pictures.
      frames: of its streams.
    """
    chosen, gallery = self._load(video, source, frames)
    shown: dict[Frame, dict[str, Any]] = {}
    is_still = isinstance(source, pathlib.Path) and is_picture(source)
    for place, (stream, row) in enumerate(frames):
      times = chosen.times.get(stream)
      time = times.seconds[row] if times and row < len(times.seconds) else None
      entry: dict[str, Any] = {'time': None, 'picture': None, 'boxes': None}
      if times and time is not None and times.unit == 'seconds' and not is_still:
        entry['time'] = round(time, 3)
      if time is not None and (stream, time) in gallery.at:
        entry['picture'] = f'{FOLDER}/{number:06}-{place:03}.jpg'
        data = video_stills.jpeg(gallery.at[stream, time])
        (self._folder / entry['picture']).write_bytes(data)
      if chosen.boxes is not None and video.features[stream].ndim == 3:
        entry['boxes'] = [_box(box) for box in chosen.boxes[row].tolist()]
      shown[stream, row] = entry
    return shown

  def _load(
    self, video: Video, source: Source | None, frames: Sequence[Frame]
  ) -> tuple[Chosen, Gallery]:
    """The times and boxes of a video, and the pictures of the streams of the frames."""
    boxes = None
    if self._boxes:
      try:
        boxes = boxes_of(video, self._boxes, self._streams)
      except DataError as error:
        self._notes.append(str(error))
    rows = {name: len(array) for name, array in video.features.items() if array.ndim > 1}
    try:
      times = frame_times.times_of(self._provenance, rows, source)
    except VideoError as error:
      self._notes.append(f'{video.video_id}: no pictures: {error}')
      source, times = None, frame_times.times_of(self._provenance, rows, None)
    chosen = Chosen(video, source, times, boxes)
    size = SIZE if len(frames) > 1 else _SINGLE
    gallery = load_gallery(chosen, {stream for stream, _ in frames}, self._extractors, size)
    self._notes.extend(gallery.notes)
    return chosen, gallery


def _box(corners: Sequence[float]) -> list[int] | None:
  """Left, top, right and bottom in thousandths of the frame; None for an absent region."""
  found = [round(1000 * min(max(corner, 0.0), 1.0)) for corner in corners]
  return found if found[2] > found[0] and found[3] > found[1] else None
