"""Decodes a video file in one pass, into upright pictures at chosen times and pieces of sound.

PyAV decodes (the extra ``video``). Frames and sound are yielded as they are decoded, so memory does
not grow with the video's length. Pictures in files are read as videos, see ``picture_files``.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Generator, Hashable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vidcap_jax.errors import VideoError as VideoError
from vidcap_jax.features import picture_files, sampling
from vidcap_jax.features.clock import Clock, read_clock
from vidcap_jax.features.picture_files import FrameFiles, Source
from vidcap_jax.features.pictures import PictureCache
from vidcap_jax.features.sound import Resamplers

_MAX_ERRORS = 10_000  # after so many errors the rest of a file is not decoded

Key = TypeVar('Key', bound=Hashable)


class Frame(NamedTuple):
  """A sampled frame.

  Attributes:
    time: seconds after the video's first frame at which it was sampled.
    image: uint8 (rows, columns, 3), RGB, upright.
  """

  time: float
  image: np.ndarray


@dataclasses.dataclass(frozen=True)
class Pictures:
  """A request for frames of a video.

  Attributes:
    how: the sampling, as of ``sampling.check``.
    size: rows and columns of the central square to cut out; None: the whole frame.
    scale: length to scale the shorter side to before that (bicubic); None: ``size``.
    times: seconds after the first frame, ascending, in place of a sampling.
    stretch: scale whole frames to size x size instead, without keeping their proportions.
  """

  how: Mapping[str, sampling.Number]
  size: int | None = 224
  scale: int | None = None
  times: tuple[float, ...] = ()
  stretch: bool = False

  @property
  def form(self) -> tuple[int | None, int | None]:
    """(size, shorter side) determine a frame's picture; (size, None): all of it, stretched."""
    return self.size, None if self.stretch else self.scale or self.size


@dataclasses.dataclass(frozen=True)
class Sound:
  """A request for sound of a video: mono, ``rate`` samples a second."""

  rate: int


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


def _open(av, path: pathlib.Path):
  if not path.is_file():
    raise VideoError(f'{path}: no such file')
  if path.stat().st_size == 0:
    raise VideoError(f'{path}: the file is empty')
  try:
    return av.open(str(path), **_tag_options(av))
  except (av.FFmpegError, OSError, ValueError) as error:
    reason = getattr(error, 'strerror', None) or error
    raise VideoError(f'{path}: not a video that can be opened ({reason})') from None


def _moving_pictures(av, container) -> list:
  """The streams of moving pictures; a music file's cover picture is not one."""
  cover = av.stream.Disposition.attached_pic
  return [stream for stream in container.streams.video if not stream.disposition & cover]


def _video_stream(av, container, path):
  """The first stream of moving pictures."""
  for stream in _moving_pictures(av, container):
    stream.codec_context.thread_count = 1  # callers decode several files at once instead
    return stream
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


class _Decoded(NamedTuple):
  """A decoded frame of pictures or of sound, and when it begins, seconds on the video's clock."""

  is_sound: bool
  moment: Fraction | None
  frame: Any


def _decoded(
  av, path: pathlib.Path, clock: Clock, pictures: bool, sound: bool, notes: list[str]
) -> Generator[_Decoded, None, None]:
  """Pictures in order of display, and frames of sound between them."""
  picture_tally, sound_tally = _Tally(), _Tally()
  reached = sound_seconds = 0.0
  try:
    with _open(av, path) as container:
      chosen = [_video_stream(av, container, path)] if pictures else []
      audio = _sound_stream(container) if sound else None
      wanted = [*chosen, *([audio] if audio else [])]
      packets = container.demux(*wanted) if wanted else iter(())
      for tally, frame in _frames(av, packets, audio, picture_tally, sound_tally):
        stamp = None if frame.pts is None else frame.pts * frame.time_base
        if tally is sound_tally:
          sound_seconds += frame.samples / frame.sample_rate
          yield _Decoded(True, None if stamp is None else stamp - clock.sound_start, frame)
        else:
          moment = clock.moment(tally.count - 1, stamp)
          reached = float(moment)
          yield _Decoded(False, moment, frame)
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


def _clock_of(av, path: pathlib.Path, pictures: bool, sound: bool) -> Clock:
  """The clock of a file's pictures; for sound alone that of the sound if there are no pictures."""
  if not (pictures or sound):
    return Clock()
  if not pictures:
    with _open(av, path) as container:
      audio = _sound_stream(container)
      if audio is None or not _moving_pictures(av, container):
        start = audio.start_time * audio.time_base if audio and audio.start_time else Fraction(0)
        return Clock(sound_start=start)
  return read_clock(lambda: _open(av, path), lambda file: _video_stream(av, file, path))


def clock_of(source: Source) -> Clock:
  """When the frames of a video file, picture or files of frames appear.

  Raises:
    VideoError: not a video that can be opened.
    ModuleNotFoundError: PyAV is not installed.
  """
  files = picture_files.frames_of(source)
  if files is not None:
    return files.clock
  assert isinstance(source, pathlib.Path)
  return _clock_of(import_av(), source, pictures=True, sound=False)


def _numbered(frames: FrameFiles) -> Generator[_Decoded, None, None]:
  """The places of frames in a list of files; a place is decoded once it is chosen."""
  for place, moment in enumerate(frames.clock.moments):
    yield _Decoded(False, moment, place)


def _check_shape(path, first: tuple[int, ...], shape: tuple[int, ...]) -> None:
  """VideoError for whole frames of several sizes."""
  if first != shape:
    raise VideoError(
      f'{path}: frames of {first[1]} x {first[0]} and of {shape[1]} x {shape[0]} pixels; '
      'a network that reads whole frames needs frames of one size'
    )


def _note_missing(
  path, pictures: Mapping[Key, Pictures], counts: Mapping[Key, int], notes: list[str]
) -> None:
  """Adds a note for each ``uniform`` sampling that yielded fewer frames than requested."""
  for key, request in pictures.items():
    expected = -(-int(request.how.get('uniform', 0)) // int(request.how.get('one_in', 1)))
    if counts[key] < expected:
      notes.append(f'{path}: {counts[key]} of {expected} frames could be sampled')


def read(
  path: str | Source,
  wanted: Mapping[Key, Pictures | Sound],
  notes: list[str] | None = None,
) -> Iterator[tuple[Key, Frame | np.ndarray]]:
  """Reads frames and sound of a video, in one pass over the file.

  Frames are rotated (in steps of 90 degrees) and mirrored by the file's display matrix. If the
  video has fewer frames than requested, ``uniform`` and ``fps`` repeat frames. Sound is the first
  sound track, its channels averaged, on the clock of the frames; gaps and damaged parts are silent.
  Files of frames have no sound.

  Args:
    path: any file that FFmpeg decodes, a picture, or the files of a video's frames.
    wanted: requests, by any keys.
    notes: a line is added for a partly damaged file. The frames that decode are yielded; for a file
      that is cut short, ``uniform`` may yield fewer than N.

  Yields:
    (key, ``Frame``), or for sound (key, float32 (samples,)) in consecutive pieces of any length;
    no pieces if the video has no sound.

  Raises:
    VideoError: no such file, an empty or unreadable one, no frames where frames are wanted, or
      whole frames of several sizes.
    ModuleNotFoundError: PyAV is not installed, or Pillow for pictures.
  """
  notes = [] if notes is None else notes
  av = import_av()
  path = pathlib.Path(path) if isinstance(path, str) else path
  pictures = {k: w for k, w in wanted.items() if isinstance(w, Pictures)}
  sounds = {k: w.rate for k, w in wanted.items() if isinstance(w, Sound)}
  files = picture_files.frames_of(path)
  decoder = None if files is None else picture_files.FrameDecoder(av, files)
  if files is not None:
    clock, decoded = files.clock, _numbered(files)
  else:
    assert isinstance(path, pathlib.Path)
    clock = _clock_of(av, path, bool(pictures), bool(sounds))
    decoded = _decoded(av, path, clock, bool(pictures), bool(sounds), notes)
  choosers = {
    key: sampling.frames_at(p.times) if p.times else sampling.make_chooser(p.how, clock)
    for key, p in pictures.items()
  }
  counts = dict.fromkeys(pictures, 0)
  cache = PictureCache(av, clock.aspect, decoder.decode if decoder else None)
  resamplers = Resamplers(av, {*sounds.values()})
  shapes: dict[Key, tuple[int, ...]] = {}

  def sound_of(frame, moment=None):
    for rate, piece in resamplers.resample(frame, moment):
      for key in (k for k, r in sounds.items() if r == rate):
        yield key, piece

  def frames_of(shown: sampling.ShownFrame | None):
    if shown is None:
      return
    for key, choose in choosers.items():
      for time, frame in choose(shown):
        counts[key] += 1
        image = cache.picture(frame, pictures[key].form)
        _check_shape(path, shapes.setdefault(key, image.shape), image.shape)
        yield key, Frame(time, image)

  timer = sampling.FrameTimer()
  try:
    for is_sound, moment, frame in decoded:
      if is_sound:
        yield from sound_of(frame, moment)
      else:
        assert moment is not None
        yield from frames_of(timer.next(moment, frame))
    yield from sound_of(None)
    yield from frames_of(timer.last())
  finally:
    decoded.close()
    notes.extend(decoder.notes() if decoder else ())
  _note_missing(path, pictures, counts, notes)


def sample(
  path: str | Source,
  how: Mapping[str, Any],
  size: int = 224,
  notes: list[str] | None = None,
) -> Iterator[Frame]:
  """Reads the frames of one sampling, as central squares; errors and notes as of ``read``.

  Raises:
    ValueError: a malformed sampling.
  """
  for _, frame in read(path, {'': Pictures(sampling.check(how), size)}, notes):
    assert isinstance(frame, Frame)
    yield frame
