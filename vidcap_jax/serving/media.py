"""Reads an uploaded clip or picture: what it is, whether it is too large, and its features.

It runs in worker processes, as decoders of media may crash on what strangers send.
"""

import contextlib
import dataclasses
import io
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np

from vidcap_jax.data.batch import subsample
from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.records import Video
from vidcap_jax.errors import UserError, VideoError
from vidcap_jax.features import frame_times, picture_files, video_decoder, video_stills
from vidcap_jax.inference.inputs import find_inputs
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.settings import Limits

# Bytes at the start of a file -> the ending that decoders go by.
_PICTURES = {b'\xff\xd8\xff': '.jpg', b'\x89PNG\r\n\x1a\n': '.png'}
_CLIPS = {
  b'\x1a\x45\xdf\xa3': '.mkv',
  b'FLV\x01': '.flv',
  b'GIF87a': '.gif',
  b'GIF89a': '.gif',
  b'OggS': '.ogv',
  b'\x00\x00\x01\xba': '.mpg',
  b'\x30\x26\xb2\x75\x8e\x66\xcf\x11': '.wmv',
}
_ATOMS = (b'ftyp', b'moov', b'mdat', b'wide', b'free', b'skip')  # of MP4 and QuickTime
_TS_PACKETS = ((0, 188), (4, 192))  # the first sync byte and the bytes of a packet
# FFmpeg opens nothing else: its formats of playlists read other files and addresses.
FORMATS = 'mov,matroska,avi,mpegts,mpeg,flv,gif,ogg,asf'
FILE_TYPES = (
  *('.mp4', '.mov', '.m4v', '.3gp', '.webm', '.mkv', '.avi', '.ts', '.mpg', '.mpeg'),
  *('.wmv', '.flv', '.ogv', '.gif', '.jpg', '.jpeg', '.png', '.webp'),
)
START_BYTES = 512
_PICTURES_SHOWN = 48
_PICTURE_ROWS = 120
_MOST_ASPECT = 50


@dataclasses.dataclass(frozen=True)
class Source:
  """What models read of a file.

  Attributes:
    provenance: of the streams.
    frames: stream -> the most frames that a model reads, and the length of its blocks.
    limits: of a file.
  """

  provenance: FeatureProvenance
  frames: Mapping[str, tuple[int, int]]
  limits: Limits


@dataclasses.dataclass(frozen=True)
class Decoded:
  """What was read of a file.

  Attributes:
    features: by stream, as the data set of the training would store them.
    notes: what is wrong with a file that could be read all the same.
    times: stream -> seconds of each row of its features; {} for a picture.
    pictures: seconds -> JPEG in a data URI; the only picture has 0.0.
  """

  features: dict[str, np.ndarray]
  notes: tuple[str, ...] = ()
  times: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
  pictures: Mapping[float, str] = dataclasses.field(default_factory=dict)


def ending_of(start: bytes) -> str | None:
  """The ending for a file by its first ``START_BYTES``; None if it is no clip and no picture."""
  for magic, ending in (*_PICTURES.items(), *_CLIPS.items()):
    if start.startswith(magic):
      return ending
  if start[:4] == b'RIFF':
    return {b'WEBP': '.webp', b'AVI ': '.avi'}.get(start[8:12])
  if start[4:8] in _ATOMS:
    return '.mp4'
  if any(start[first:][: size + 1 : size] == b'GG' for first, size in _TS_PACKETS):
    return '.ts'
  return None


def read(path: pathlib.Path, name: str, source: Source, with_pictures: bool) -> Decoded:
  """Reads an uploaded file.

  Args:
    path: with the ending of ``ending_of``.
    name: of the file, for messages.
    source: what models read.
    with_pictures: whether times and pictures of frames are wanted.

  Raises:
    ApiError: it is too large or too long, or has no frames that can be decoded.
  """
  try:
    _check_size(path, name, source.limits)
    notes: list[str] = []
    with contextlib.redirect_stderr(io.StringIO()):  # notes on the checkpoint, for every file
      (found,) = find_inputs(source.provenance, [str(path)])
    video = found.load(notes)
    times, pictures = _shown(path, video, source) if with_pictures else ({}, {})
    notes = [_without_path(note, path, name) for note in notes]
    return Decoded(video.features, tuple(notes), times, pictures)
  except ApiError:
    raise
  except UserError as error:
    raise ApiError('bad_file', _without_path(str(error), path, name)) from None
  except MemoryError:
    raise ApiError('too_large', f'{name}: decoding it takes too much memory') from None
  except Exception as error:
    raise ApiError(
      'decoding_failed', f'{name}: it cannot be decoded ({type(error).__name__})'
    ) from error


def _without_path(text: str, path: pathlib.Path, name: str) -> str:
  """A message with the name that the client gave a file in place of the server's path."""
  return text.replace(str(path), name).replace(str(path.parent), '')


def _check_size(path: pathlib.Path, name: str, limits: Limits) -> None:
  """Raises ApiError for a file whose header, or whose packets, show that it is too large."""
  if picture_files.is_picture(path):
    image_module, _ = picture_files.import_pillow()
    with _as_video_error(name), image_module.open(path) as image:
      width, height = image.size
    seconds = 0.0
  else:
    width, height, seconds = _clip_size(path, limits.clip_seconds)
  if width * height > limits.pixels or max(width, height) > _MOST_ASPECT * min(width, height):
    raise ApiError(
      'too_large',
      f'{name}: {width} x {height} pixels; at most {limits.pixels:,} are read, and no side may be '
      f'{_MOST_ASPECT} times the other',
    )
  if seconds > limits.clip_seconds:
    raise ApiError(
      'too_long',
      f'{name}: longer than the {limits.clip_seconds:g} seconds that are read; send a part of it',
    )


@contextlib.contextmanager
def _as_video_error(name: str) -> Iterator[None]:
  try:
    yield
  except Exception as error:  # Pillow's readers raise errors of many types
    reason = 'it has too many pixels' if 'Bomb' in type(error).__name__ else 'it is damaged'
    raise VideoError(f'{name}: not a picture that can be decoded; {reason}') from None


def _clip_size(path: pathlib.Path, most_seconds: float) -> tuple[int, int, float]:
  """Width, height, and seconds by the header or by the time stamps of packets."""
  av = video_decoder.import_av()
  with video_decoder.open_file(av, path) as container:
    stream = next((s for s in container.streams.video if s.codec_context is not None), None)
    if stream is None:
      return 0, 0, 0.0  # an error of its own later
    size = (stream.codec_context.width, stream.codec_context.height)
    declared = float(stream.duration * stream.time_base) if stream.duration else 0.0
    if declared > most_seconds:
      return *size, declared
    first = None
    try:
      for packet in container.demux(stream):
        if packet.pts is None:
          continue
        seconds = float(packet.pts * packet.time_base)
        first = seconds if first is None else first
        if seconds - first > most_seconds:
          return *size, seconds - first
    except av.FFmpegError:
      pass  # the part before the damage is read
  return *size, 0.0


def _shown(
  path: pathlib.Path, video: Video, source: Source
) -> tuple[dict[str, tuple[float, ...]], dict[float, str]]:
  """The times of the features' rows by stream, and pictures of those that a model reads."""
  if picture_files.is_picture(path):
    (image,) = video_stills.pictures_at(path, [0.0], _PICTURE_ROWS, whole=True)
    return {}, {0.0: video_stills.jpeg_uri(image)}
  rows = {name: len(array) for name, array in video.features.items() if array.ndim > 1}
  found = frame_times.times_of(source.provenance, rows, path)
  times = {name: each.seconds for name, each in found.items()}
  wanted = {
    times[name][row]
    for name, (most, block) in source.frames.items()
    if name in times
    for row in subsample(len(times[name]), most, block)
  }
  chosen = sorted(wanted)
  if len(chosen) > _PICTURES_SHOWN:
    places = np.linspace(0, len(chosen) - 1, _PICTURES_SHOWN).round().astype(int)
    chosen = [chosen[place] for place in places]
  images = video_stills.pictures_at(path, chosen, _PICTURE_ROWS, whole=True)
  uris = map(video_stills.jpeg_uri, images)
  return times, dict(zip(chosen, uris, strict=True))
