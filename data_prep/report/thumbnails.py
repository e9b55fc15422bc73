"""Small pictures of videos for a page: a few frames each, as JPEG."""

import base64
import dataclasses
import fractions
import os
import pathlib
from collections.abc import Collection, Iterable, Mapping

import numpy as np

from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import names
from vidcap_jax.features.video import VideoError, import_av, sample

FRAMES = 3
SIZE = 112  # pixels


@dataclasses.dataclass
class Thumbnails:
  """Pictures by video id, and what could not be shown.

  Attributes:
    pictures: id -> data URIs, in order of time.
    notes: for people: videos without a file, and files that are damaged or cannot be decoded.
  """

  pictures: dict[str, list[str]] = dataclasses.field(default_factory=dict)
  notes: list[str] = dataclasses.field(default_factory=list)


def find_files(folder, video_ids: Collection[str], aliases: Mapping[str, str]) -> dict[str, str]:
  """The file of each video, in a folder and those below it, by its name without extension.

  Args:
    folder: of the videos.
    video_ids: wanted.
    aliases: id -> other name that its file may have.

  Raises:
    DataError: no such folder.
  """
  if not pathlib.Path(folder).is_dir():
    raise DataError(f'--videos={folder}: no such folder')
  normal = names.normal_form(names.DEFAULT)
  files: dict[str, str] = {}
  for place, _, found in os.walk(folder):
    for file in sorted(found):
      if normal(file) != file:  # It has the extension of a video, or of features.
        files.setdefault(normal(file), os.path.join(place, file))
  wanted = {i: [normal(name) for name in (i, aliases.get(i)) if name] for i in video_ids}
  return {i: files[name] for i, of in wanted.items() for name in of[::-1] if name in files}


def make(folder, video_ids: Iterable[str], aliases: Mapping[str, str]) -> Thumbnails:
  """Decodes a few frames of each video; one that gives none is named in the notes.

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
