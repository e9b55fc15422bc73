"""Decodes a video file in one pass, into upright pictures at chosen times and pieces of sound.

PyAV decodes (the extra ``video``). Frames and sound are yielded as they are decoded, so memory does
not grow with the video's length.
"""

import collections
import dataclasses
import pathlib
from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vidcap_jax.errors import UserError
from vidcap_jax.features import sampling

_MAX_ERRORS = 10_000  # after so many errors the rest of a file is not decoded

Key = TypeVar('Key', bound=Hashable)


class VideoError(UserError):
  """A file without a single frame; the message names the file and the reason."""


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
  """

  how: Mapping[str, sampling.Number]
  size: int | None = 224
  scale: int | None = None

  @property
  def form(self) -> tuple[int | None, int | None]:
    """(size, length of the shorter side), which determine the picture of a frame."""
    return self.size, self.scale or self.size


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


def _video_stream(av, container, path):
  """The first stream of moving pictures; a music file's cover picture is not one."""
  for stream in container.streams.video:
    if not stream.disposition & av.stream.Disposition.attached_pic:
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


def _packet_times(av, path: pathlib.Path, notes: list[str]) -> list[float]:
  """Time stamps of a video's frames in seconds, ascending, without decoding them."""
  times = []
  with _open(av, path) as container:
    stream = _video_stream(av, container, path)
    try:
      for packet in container.demux(stream):
        stamp = packet.pts if packet.pts is not None else packet.dts
        if packet.size and stamp is not None and not packet.is_discard:
          times.append(float(stamp * packet.time_base))
    except av.FFmpegError:
      pass  # use what could be read; the decoding pass reports the damage
    times.sort()
    reached = times[-1] - times[0] if times else 0.0
    _note_cut(path, _declared(av, container, stream), reached, notes)
  return times


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


def _decoded(
  av, path: pathlib.Path, pictures: bool, sound: bool, notes: list[str]
) -> Generator[tuple[float | None, Any], None, None]:
  """(seconds, frame) of each picture, in order of presentation; (None, frame) of sound between."""
  picture_tally, sound_tally = _Tally(), _Tally()
  start = seconds = sound_seconds = 0.0
  try:
    with _open(av, path) as container:
      chosen = [_video_stream(av, container, path)] if pictures else []
      audio = _sound_stream(container) if sound else None
      rate = float((chosen[0].average_rate or chosen[0].guessed_rate or 25) if chosen else 1)
      wanted = [*chosen, *([audio] if audio else [])]
      packets = container.demux(*wanted) if wanted else iter(())
      for tally, frame in _frames(av, packets, audio, picture_tally, sound_tally):
        if tally is sound_tally:
          sound_seconds += frame.samples / frame.sample_rate
          yield None, frame
          continue
        if frame.pts is None:
          seconds = (tally.count - 1) / rate
        else:
          seconds = float(frame.pts * frame.time_base)
        start = seconds if tally.count == 1 else start
        yield seconds, frame
      if audio is not None:
        _note_cut(path, _declared(av, container, audio), sound_seconds, notes, 'sound ')
      for stream in chosen:
        _note_cut(path, _declared(av, container, stream), seconds - start, notes)
    if pictures and not picture_tally.count:
      reason = '; '.join(picture_tally.failed) or 'it holds no frames'
      raise VideoError(f'{path}: no frame can be decoded ({reason})')
    if audio and not sound_tally.count:
      notes.append(f'{path}: no sound can be decoded; treated as a video without sound')
  finally:  # also when the caller stops early
    for tally, what in ((picture_tally, ''), (sound_tally, 'sound ')):
      if tally.count and (reasons := tally.reasons()):
        notes.append(f'{path}: {what}damaged: {", ".join(reasons)}')


def _picture(frame, reformatter, size: int | None, scale: int | None) -> np.ndarray:
  """A frame as uint8 (rows, columns, 3) RGB, upright; see ``Pictures``."""
  shorter = min(frame.width, frame.height)
  factor = (scale or shorter) / shorter
  width, height = (max(size or 1, round(n * factor)) for n in (frame.width, frame.height))
  small = reformatter.reformat(frame, width, height, 'rgb24', interpolation='BICUBIC')
  image = small.to_ndarray()
  if size is not None:
    top, left = (height - size) // 2, (width - size) // 2
    image = image[top : top + size, left : left + size]
  # The tag says by how much to turn the stored picture anticlockwise to show it upright.
  return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


class _PictureCache:
  """Pictures of the last requested frame; each form is made once."""

  def __init__(self, av):
    self._reformatters: dict[tuple, Any] = collections.defaultdict(
      av.video.reformatter.VideoReformatter
    )
    self._frame: Any = None
    self._images: dict[tuple, np.ndarray] = {}

  def picture(self, frame, form: tuple[int | None, int | None]) -> np.ndarray:
    if frame is not self._frame:
      self._frame, self._images = frame, {}
    if form not in self._images:
      self._images[form] = _picture(frame, self._reformatters[form], *form)
    return self._images[form]


class _Resamplers:
  """Turns decoded sound into float32 (samples,), mono, at each of the given rates."""

  def __init__(self, av, rates):
    self._av = av
    self._running: dict[int, Any] = dict.fromkeys(rates)
    self._form: Any = None

  def resample(self, frame) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (rate, samples) of a frame; None flushes what the resamplers hold back."""
    form = frame and (frame.format.name, frame.layout.name, frame.sample_rate)
    if frame is not None and self._form not in (None, form):
      yield from self.resample(None)  # a stream may change its format
    self._form = form
    for rate, running in self._running.items():
      if frame is None:
        pieces = running.resample(None) if running else []
        self._running[rate] = None
      else:
        if running is None:
          running = self._running[rate] = self._av.AudioResampler(format='fltp', rate=rate)
        frame.pts = None  # pieces are joined without gaps
        pieces = running.resample(frame)
      for piece in pieces:
        # The mean, because FFmpeg's own mix would make what both channels hold louder.
        yield rate, piece.to_ndarray().mean(0)


def read(
  path: str | pathlib.Path,
  wanted: Mapping[Key, Pictures | Sound],
  notes: list[str] | None = None,
) -> Iterator[tuple[Key, Frame | np.ndarray]]:
  """Reads frames and sound of a video, in one pass over the file.

  Frames are rotated by the file's display matrix (in steps of 90 degrees). If the video has fewer
  frames than requested, ``uniform`` and ``fps`` repeat frames. Sound is the first sound track, its
  channels averaged; damaged parts are left out without a gap.

  Args:
    path: any file that FFmpeg decodes.
    wanted: requests, by any keys.
    notes: a line is added for a partly damaged file. The frames that decode are yielded; for a file
      that is cut short, ``uniform`` may yield fewer than N.

  Yields:
    (key, ``Frame``), or for sound (key, float32 (samples,)) in consecutive pieces of any length;
    no pieces if the video has no sound.

  Raises:
    VideoError: no such file, an empty or unreadable one, or no frames where frames are wanted.
    ModuleNotFoundError: PyAV is not installed.
  """
  notes = [] if notes is None else notes
  av = import_av()
  path = pathlib.Path(path)
  pictures = {k: w for k, w in wanted.items() if isinstance(w, Pictures)}
  sounds = {k: w.rate for k, w in wanted.items() if isinstance(w, Sound)}
  uniform = [p for p in pictures.values() if 'uniform' in p.how]
  times = _packet_times(av, path, notes) if uniform else []
  choosers = {key: sampling.chooser(p.how, times) for key, p in pictures.items()}
  counts = dict.fromkeys(pictures, 0)
  cache, resamplers = _PictureCache(av), _Resamplers(av, {*sounds.values()})

  def sound_of(frame):
    for rate, piece in resamplers.resample(frame):
      for key in (k for k, r in sounds.items() if r == rate):
        yield key, piece

  def frames_of(shown: sampling.ShownFrame | None):
    if shown is None:
      return
    for key, choose in choosers.items():
      for time, frame in choose(shown):
        counts[key] += 1
        yield key, Frame(time, cache.picture(frame, pictures[key].form))

  timer = sampling.FrameTimer()
  decoded = _decoded(av, path, bool(pictures), bool(sounds), notes)
  try:
    for seconds, frame in decoded:
      yield from sound_of(frame) if seconds is None else frames_of(timer.next(seconds, frame))
    yield from sound_of(None)
    yield from frames_of(timer.last())
  finally:
    decoded.close()
  for key, p in pictures.items():
    one_in = int(p.how.get('one_in', 1))
    if 'uniform' in p.how and counts[key] < (expected := -(-int(p.how['uniform']) // one_in)):
      notes.append(f'{path}: {counts[key]} of {expected} frames could be sampled')


def sample(
  path: str | pathlib.Path,
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
