"""Thumbnails of videos for the HTML page: a few frames each, as JPEG."""

import dataclasses
from collections.abc import Iterable, Mapping

from vidcap_jax.errors import VideoError
from vidcap_jax.features.video import sample
from vidcap_jax.features.video_decoder import import_av
from vidcap_jax.features.video_stills import find_sources, jpeg_uri

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


def make_thumbnails(folder, video_ids: Iterable[str], aliases: Mapping[str, str]) -> Thumbnails:
  """Decodes a few frames of each video; videos without any are named in the notes.

  Raises:
    DataError: no such folder.
    ModuleNotFoundError: PyAV is not installed.
  """
  av = import_av()
  video_ids = list(video_ids)
  files = find_sources(folder, video_ids, aliases)
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
      result.pictures[video_id] = [jpeg_uri(frame.image) for frame in frames]
    except (VideoError, av.FFmpegError) as error:
      result.notes.append(f'{video_id}: {error}')
  return result
