"""Still pictures of videos for pages and figures: finds a video and decodes some of its frames."""

import base64
import fractions
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vidcap_jax.features import video, video_decoder
from vidcap_jax.features.formats import names
from vidcap_jax.features.picture_files import FrameFiles, Source, is_picture, natural_order
from vidcap_jax.files import check_input


def find_sources(
  folder, video_ids: Collection[str], aliases: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Source]:
  """Finds the file of each video by name, or its folder of frames, in a folder and below it.

  Args:
    folder: of the videos.
    video_ids: of the videos to find.
    aliases: id -> other name that a file may have.

  Returns:
    id -> source, without videos that are not found. A video comes before a folder of frames, and
    that before a single picture.

  Raises:
    UserError: no such folder.
  """
  check_input('--videos', folder, 'the folder of videos, pictures or frames', 'folder')
  normalize = names.normal_form(names.DEFAULT)
  videos: dict[str, Source] = {}
  frames: dict[str, Source] = {}
  pictures: dict[str, Source] = {}
  for directory, _, filenames in os.walk(folder):
    place = pathlib.Path(directory)
    inside = [name for name in filenames if is_picture(place / name)]
    if inside:
      files = tuple(place / name for name in natural_order(inside))
      frames.setdefault(place.name, FrameFiles(directory, files))
    for path in (place / name for name in sorted(filenames)):
      if normalize(path.name) != path.name:  # it has an extension of videos (or features)
        kind = pictures if is_picture(path) else videos
        kind.setdefault(normalize(path.name), path)
  files_by_name = {**pictures, **frames, **videos}
  found = {}
  for video_id in video_ids:
    # The id comes last, so that a file named by it wins over one with the other name.
    for name in filter(None, (aliases.get(video_id), video_id)):
      if normalize(name) in files_by_name:
        found[video_id] = files_by_name[normalize(name)]
  return found


def pictures_at(
  source: Source,
  times: Sequence[float],
  size: int = 160,
  *,
  whole: bool = False,
  zoom: float = 1.0,
  notes: list[str] | None = None,
) -> list[np.ndarray]:
  """The frames on screen at given times, in the order of the times.

  Args:
    source: a video file, a picture or files of frames.
    times: seconds after the first frame, in any order; after the end: the last frame.
    size: rows and columns of the central square; with ``whole`` the length of the shorter side.
    whole: the whole frame instead.
    zoom: length of the shorter side relative to the square's, before it is cut out.
    notes: a line is added for a partly damaged file.

  Returns:
    uint8 (rows, columns, 3) for each time.

  Raises:
    VideoError: no frame can be decoded.
    ModuleNotFoundError: PyAV is not installed, or Pillow for pictures.
  """
  ordered = sorted({*times})
  if not ordered:
    return []
  square, shorter = (None, size) if whole else (size, round(size * zoom))
  request = video.Pictures({}, square, shorter, tuple(ordered))
  images: list[np.ndarray] = []
  for _, frame in video.read(source, {'': request}, notes):
    assert isinstance(frame, video.Frame)
    images.append(frame.image)
  by_time = dict(zip(ordered, images, strict=True))
  return [by_time[time] for time in times]


def jpeg_uri(image: np.ndarray) -> str:
  """As ``jpeg``, in a data URI."""
  return 'data:image/jpeg;base64,' + base64.b64encode(jpeg(image)).decode()


def jpeg(image: np.ndarray) -> bytes:
  """A picture, uint8 (rows, columns, 3), as a JPEG file.

  An odd last row or column is cut off: the format halves the sizes of its colour planes.
  """
  av = video_decoder.import_av()
  rows, columns = (size // 2 * 2 for size in image.shape[:2])
  image = np.ascontiguousarray(image[:rows, :columns])
  encoder = av.CodecContext.create('mjpeg', 'w')
  encoder.width, encoder.height, encoder.pix_fmt = columns, rows, 'yuvj420p'
  encoder.time_base = fractions.Fraction(1, 25)
  frame = av.VideoFrame.from_ndarray(image, format='rgb24').reformat(format='yuvj420p')
  packets = [*encoder.encode(frame), *encoder.encode(None)]
  return b''.join(bytes(packet) for packet in packets)
