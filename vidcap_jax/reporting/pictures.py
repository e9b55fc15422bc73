"""Pictures of the videos of a report: a strip of each video, and the frames of its attention."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data import provenance
from vidcap_jax.data.records import Video
from vidcap_jax.errors import VideoError
from vidcap_jax.features import frame_times, video_stills
from vidcap_jax.features.picture_files import Source, is_picture
from vidcap_jax.features.video import clock_of
from vidcap_jax.reporting.attention import Frame
from vidcap_jax.studies.panels import Gallery, load_gallery
from vidcap_jax.studies.videos import Chosen

FOLDER = 'pictures'
_STRIP = 4  # frames of a strip
_ROWS = 96  # pixels of the shorter side of its frames


def write_strip(folder: pathlib.Path, number: int, source: Source, notes: list[str]) -> int:
  """Writes some frames of a video beside each other as one picture.

  Args:
    folder: of the report.
    number: of the video.
    source: its file, frames or picture.
    notes: a line is added for a partly damaged file.

  Returns:
    The number of frames in the picture.

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
  return len(images)


def strip_name(number: int) -> str:
  """The file of a video's strip; names come from numbers, as ids may have any characters."""
  return f'{FOLDER}/{number:06}.jpg'


class FramePictures:
  """The times and pictures of the frames that a model has read of a video."""

  def __init__(self, restored: Restored, folder: pathlib.Path, log: Callable[[str], None]):
    self._provenance = provenance.from_dict(restored.meta.get('making', {}), restored.streams)
    self._extractors = {stream.name: stream.extractor for stream in restored.streams}
    self._folder, self._log = folder, log

  def write(
    self, number: int, video: Video, source: Source | None, frames: Sequence[Frame]
  ) -> Mapping[Frame, dict[str, Any]]:
    """The time and the written picture of each frame; None where they are not known.

    Args:
      number: of the video, for file names.
      video: with features.
      source: its file, frames or picture; None for no pictures.
      frames: of its streams.
    """
    rows = {name: len(array) for name, array in video.features.items() if array.ndim > 1}
    gallery = Gallery({})
    try:
      times = frame_times.times_of(self._provenance, rows, source)
      chosen = Chosen(video, source, times)
      gallery = load_gallery(chosen, {stream for stream, _ in frames}, self._extractors)
      for note in gallery.notes:
        self._log(note)
    except VideoError as error:
      self._log(f'{video.video_id}: no pictures: {error}')
      times = frame_times.times_of(self._provenance, rows, None)
    shown: dict[Frame, dict[str, Any]] = {}
    is_still = isinstance(source, pathlib.Path) and is_picture(source)
    for place, (stream, row) in enumerate(frames):
      known = times[stream].seconds if stream in times else ()
      time = known[row] if row < len(known) else None
      entry: dict[str, Any] = {'time': None, 'picture': None}
      if time is not None and times[stream].unit == 'seconds' and not is_still:
        entry['time'] = round(time, 3)
      if time is not None and (stream, time) in gallery.at:
        entry['picture'] = f'{FOLDER}/{number:06}-{place:03}.jpg'
        data = video_stills.jpeg(gallery.at[stream, time])
        (self._folder / entry['picture']).write_bytes(data)
      shown[stream, row] = entry
    return shown
