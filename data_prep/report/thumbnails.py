"""Thumbnails of videos for the HTML page: a few frames each, as JPEG."""

import base64
import dataclasses
import fractions
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import names
from vidcap_jax.features.picture_files import is_picture
from vidcap_jax.features.video import VideoError, import_av, sample

FRAMES = 3
SIZE = 112  # pixels


@dataclasses.dataclass
class Thumbnails:
  """Pictures by video id, and notes on videos without pictures.

  Attributes:
    pictures: id -> data URIs, in order of time.
    notes: videos without a file, and files that are damaged or can't be decoded.
  """

  pictures: dict[str, list[str]] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)


def find_files(folder, video_ids: Collection[str], aliases: Mapping[str, str]) -> dict[str, str]:
  """Finds the file of each video by name, in a folder and its subfolders.

  Args:
    folder: of the videos.
    video_ids: of the videos to find.
    aliases: id -> other name that its file may have.

  Raises:
    DataError: no such folder.
  """
  if not pathlib.Path(folder).is_dir():
    raise DataError(f'--videos={folder}: no such folder')
  normalize = names.normal_form(names.DEFAULT)
  paths = [
    pathlib.Path(directory, file)
    for directory, _, filenames in os.walk(folder)
    for file in sorted(filenames)
  ]
  files: dict[str, str] = {}
  for path in sorted(paths, key=is_picture):  # a video comes before its picture
    if normalize(path.name) != path.name:  # it has an extension of videos (or features)
      files.setdefault(normalize(path.name), str(path))
  found = {}
  for video_id in video_ids:
    # The id comes last, so that a file named by it wins over one with the other name.
    for name in filter(None, (aliases.get(video_id), video_id)):
      if normalize(name) in files:
        found[video_id] = files[normalize(name)]
  return found


def make_thumbnails(folder, video_ids: Iterable[str], aliases: Mapping[str, str]) -> Thumbnails:
  """Decodes a few frames of each video; videos without any are named in the notes.

  Raises:
    DataError: no such folder.
    ModuleNotFoundError: PyAV is not installed.
  """
  av = import_av()
  video_ids = list(video_ids)
  files = find_files(folder, video_ids, aliases)
  result = Thumbnails()
  if without := [i for i in video_ids if i not in files]:
    more = f' and {len(without) - 5} more' if len(without) > 5 else ''
    result.notes.append(
      f'{len(without)} of the {len(video_ids)} videos shown have no file in {folder}: '
      + ', '.join(without[:5])
      + more
    )
  for video_id, file in files.items():
    try:
      frames = list(sample(file, {'uniform': FRAMES}, SIZE, result.notes))
      result.pictures[video_id] = [_data_uri(av, frame.image) for frame in frames]
    except (VideoError, av.FFmpegError) as error:
      result.notes.append(f'{video_id}: {error}')
  return result


def _data_uri(av, image: np.ndarray) -> str:
  """A picture (rows, columns, 3) as JPEG in a data URI."""
  rows, columns, _ = image.shape
  encoder = av.CodecContext.create('mjpeg', 'w')
  encoder.width, encoder.height, encoder.pix_fmt = columns, rows, 'yuvj420p'
  encoder.time_base = fractions.Fraction(1, 25)
  frame = av.VideoFrame.from_ndarray(image, format='rgb24').reformat(format='yuvj420p')
  packets = [*encoder.encode(frame), *encoder.encode(None)]
  data = b''.join(bytes(packet) for packet in packets)
  return 'data:image/jpeg;base64,' + base64.b64encode(data).decode()
