"""Opens a video file with PyAV and decodes it in one pass: frames and sound, and when each begins.

Damaged packets are counted and skipped. PyAV is the extra ``video``.
"""

import collections
import pathlib
from collections.abc import Generator, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from vidcap_jax.errors import VideoError
from vidcap_jax.features.clock import Clock, read_clock

_OPTIONS: dict[str, str] = {}  # of FFmpeg, for every file that is opened
_MAX_ERRORS = 10_000  # after so many errors the rest of a file is not decoded


def import_av():
  """Imports PyAV; ModuleNotFoundError says which extra to install."""
  try:
    import av
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'PyAV is needed to read video files: install the extra "video", '
      "pip install 'vidcap_jax[video]'"
    ) from error
  return av


def _tag_options(av) -> dict[str, str]:
  """Arguments of ``av.open`` for files with a tag that is not UTF-8.

  Since PyAV 19, ``open`` reads such tags without an argument, and has none.
  """
  return {'metadata_errors': 'replace'} if int(av.__version__.split('.')[0]) < 19 else {}


def allow_formats(names: str) -> None:
  """Makes this process open files of these formats of FFmpeg only, and nothing that they name.

  Playlists name other files and addresses, which a process that reads files of strangers must not
  open.

  Args:
    names: with commas between them, such as 'mov,matroska'.
  """
  _OPTIONS.update(format_whitelist=names, protocol_whitelist='file')


def open_file(av, path: pathlib.Path):
  """Opens a file as PyAV's container; VideoError for one that is no video."""
  if not path.is_file():
    raise VideoError(f'{path}: no such file')
  if path.stat().st_size == 0:
    raise VideoError(f'{path}: the file is empty')
  try:
    return av.open(str(path), options=dict(_OPTIONS), **_tag_options(av))
  except (av.FFmpegError, OSError, ValueError) as error:
    reason = getattr(error, 'strerror', None) or error
    raise VideoError(f'{path}: not a video that can be opened ({reason})') from None


def _moving_pictures(av, container) -> list:
  """The streams of moving pictures; a music file's cover picture is not one."""
  cover = av.stream.Disposition.attached_pic
  return [stream for stream in container.streams.video if not stream.disposition & cover]


def _video_stream(av, container, path):
  """The first stream of moving pictures that FFmpeg has a decoder for."""
  streams = _moving_pictures(av, container)
  for stream in streams:
    if stream.codec_context is not None:
      stream.codec_context.thread_count = 1  # callers decode several files at once instead
      return stream
  if streams:
    raise VideoError(f'{path}: FFmpeg has no decoder for its pictures; the file may be damaged')
  raise VideoError(f'{path}: no video stream ({len(container.streams)} other streams)')


def _sound_stream(container):
  """The first stream of sound that FFmpeg has a decoder for, or None."""
  return next((s for s in container.streams.audio if s.codec_context is not None), None)


def _declared(av, container, stream) -> float | None:
  """The duration of a stream in seconds by the file's header; None if it has none."""
  if stream.duration is not None and stream.time_base is not None:
    return float(stream.duration * stream.time_base)
  if container.duration is not None and len(container.streams) == 1:  # not that of longer sound
    return container.duration / av.time_base
  return None


def _note_cut(
  path, declared: float | None, reached: float, notes: list[str], what: str = ''
) -> None:
  """Adds a note if a stream ends well before its declared duration."""
  if declared is not None and reached < 0.9 * declared - 0.5:
    notes.append(f'{path}: {what}cut short after {reached:.1f} of {declared:.1f} seconds')


class _Tally:
  """How many frames of a stream decoded, and which errors the others gave."""

  def __init__(self):
    self.failed: collections.Counter[str] = collections.Counter()
    self.count = self.corrupt = 0

  def reasons(self) -> list[str]:
    reasons = [f'{reason} ({n} times)' for reason, n in self.failed.items()]
    if self.corrupt:
      reasons.append(f'{self.corrupt} of {self.count} decoded frames incomplete')
    return reasons


def _frames(av, packets, audio, pictures: _Tally, sound: _Tally) -> Iterator[tuple[_Tally, Any]]:
  """(tally, frame) of each frame that decodes; packets that don't are counted and skipped."""
  while pictures.failed.total() + sound.failed.total() < _MAX_ERRORS:
    tally = pictures
    try:
      packet = next(packets)
      tally = sound if packet.stream is audio else pictures
      frames = packet.decode()
    except (StopIteration, av.EOFError):
      return
    except av.FFmpegError as error:
      tally.failed[error.strerror or str(error)] += 1
      continue
    for frame in frames:
      tally.count += 1
      tally.corrupt += frame.is_corrupt
      yield tally, frame


class Decoded(NamedTuple):
  """A decoded frame of pictures or of sound, and when it begins, seconds on the video's clock."""

  is_sound: bool
  moment: Fraction | None
  frame: Any


def decoded_parts(
  av, path: pathlib.Path, clock: Clock, pictures: bool, sound: bool, notes: list[str]
) -> Generator[Decoded, None, None]:
  """Pictures in order of display, and frames of sound between them."""
  picture_tally, sound_tally = _Tally(), _Tally()
  reached = sound_seconds = 0.0
  try:
    with open_file(av, path) as container:
      chosen = [_video_stream(av, container, path)] if pictures else []
      audio = _sound_stream(container) if sound else None
      wanted = [*chosen, *([audio] if audio else [])]
      packets = container.demux(*wanted) if wanted else iter(())
      for tally, frame in _frames(av, packets, audio, picture_tally, sound_tally):
        stamp = None if frame.pts is None else frame.pts * frame.time_base
        if tally is sound_tally:
          sound_seconds += frame.samples / frame.sample_rate
          yield Decoded(True, None if stamp is None else stamp - clock.sound_start, frame)
        else:
          moment = clock.moment(tally.count - 1, stamp)
          reached = float(moment)
          yield Decoded(False, moment, frame)
      if audio is not None:
        _note_cut(path, _declared(av, container, audio), sound_seconds, notes, 'sound ')
      for stream in chosen:
        _note_cut(path, _declared(av, container, stream), reached, notes)
    if pictures and not picture_tally.count:
      reason = '; '.join(picture_tally.failed) or 'it holds no frames'
      raise VideoError(f'{path}: no frame can be decoded ({reason})')
    if audio and not sound_tally.count:
      notes.append(f'{path}: no sound can be decoded; treated as a video without sound')
  finally:  # also when the caller stops early
    for tally, what in ((picture_tally, ''), (sound_tally, 'sound ')):
      if tally.count and (reasons := tally.reasons()):
        notes.append(f'{path}: {what}damaged: {", ".join(reasons)}')


def file_clock(av, path: pathlib.Path, pictures: bool, sound: bool) -> Clock:
  """The clock of a file's pictures; for sound alone that of the sound if there are no pictures."""
  if not (pictures or sound):
    return Clock()
  if not pictures:
    with open_file(av, path) as container:
      audio = _sound_stream(container)
      if audio is None or not _moving_pictures(av, container):
        start = audio.start_time * audio.time_base if audio and audio.start_time else Fraction(0)
        return Clock(sound_start=start)
  return read_clock(lambda: open_file(av, path), lambda file: _video_stream(av, file, path))
