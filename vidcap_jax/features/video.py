"""Decodes a video file once, into upright pictures at chosen times and stretches of sound.

Decoding is PyAV's (the extra ``video``). Frames and sound come a little at a time, so memory does
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
  """A file that gives no frame at all; the message names the file and says why."""


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
  """Frames to be had of a video.

  Attributes:
    how: sampling, as of ``sampling.check``.
    size: rows and columns of the central square that is kept; None: the whole frame.
    scale: what the shorter side is scaled to before (bicubic); None: ``size``.
  """

  how: Mapping[str, sampling.Number]
  size: int | None = 224
  scale: int | None = None

  @property
  def form(self) -> tuple[int | None, int | None]:
    """(size, length of the shorter side): what the picture of one frame depends on."""
    return self.size, self.scale or self.size


@dataclasses.dataclass(frozen=True)
class Sound:
  """Sound to be had of a video: mono, ``rate`` samples a second."""

  rate: int


def import_av():
  """PyAV, or ModuleNotFoundError saying which extra brings it."""
  try:
    import av
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      'PyAV is needed to read video files: install the extra "video", '
      "pip install 'vidcap_jax[video]'"
    ) from error
  return av


def _tag_options(av) -> dict[str, str]:
  """Arguments of ``av.open`` under which a tag that is not UTF-8 doesn't stop a file from opening.

  From PyAV 19 on ``open`` takes none for this, and reads such tags by itself.
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
  """How many seconds a stream lasts by the file's header, if it says."""
  if stream.duration is not None and stream.time_base is not None:
    return float(stream.duration * stream.time_base)
  if container.duration is not None and len(container.streams) == 1:  # no longer sound beside it
    return container.duration / av.time_base
  return None


def _note_cut(
  path, declared: float | None, reached: float, notes: list[str], what: str = ''
) -> None:
  """Notes a stream that ends well before its header says."""
  if declared is not None and reached < 0.9 * declared - 0.5:
    notes.append(f'{path}: {what}cut short after {reached:.1f} of {declared:.1f} seconds')


def _packet_times(av, path: pathlib.Path, notes: list[str]) -> list[float]:
  """Times in seconds of a video's frames, ascending, without decoding any."""
  times = []
  with _open(av, path) as container:
    stream = _video_stream(av, container, path)
    try:
      for packet in container.demux(stream):
        stamp = packet.pts if packet.pts is not None else packet.dts
        if packet.size and stamp is not None and not packet.is_discard:
          times.append(float(stamp * packet.time_base))
    except av.FFmpegError:
      pass  # what could be read counts; the decoding pass reports the damage
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


class _Album:
  """Pictures of the frame last asked for, each form made once."""

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
  """Decoded sound as float32 (samples,), mono, at each of some rates."""

  def __init__(self, av, rates):
    self._av = av
    self._running: dict[int, Any] = dict.fromkeys(rates)
    self._form: Any = None

  def of(self, frame) -> Iterator[tuple[int, np.ndarray]]:
    """(rate, samples) of a frame; of what is still held back if it is None."""
    form = frame and (frame.format.name, frame.layout.name, frame.sample_rate)
    if frame is not None and self._form not in (None, form):
      yield from self.of(None)  # a stream may change its form on the way
    self._form = form
    for rate, running in self._running.items():
      if frame is None:
        pieces = running.resample(None) if running else []
        self._running[rate] = None
      else:
        if running is None:
          running = self._running[rate] = self._av.AudioResampler(format='fltp', rate=rate)
        frame.pts = None  # what decodes is laid end to end
        pieces = running.resample(frame)
      for piece in pieces:
        # FFmpeg's own way to one channel would make what both channels hold louder.
        yield rate, piece.to_ndarray().mean(0)


def read(
  path: str | pathlib.Path,
  wanted: Mapping[Key, Pictures | Sound],
  notes: list[str] | None = None,
) -> Iterator[tuple[Key, Frame | np.ndarray]]:
  """Frames and sound of a video, in one pass over it, a little at a time.

  A frame is turned as the file's display matrix says (in steps of 90 degrees). Where the video has
  fewer frames than asked for, ``uniform`` and ``fps`` repeat frames. Sound is the first sound
  track, its channels averaged; where it is damaged, what decodes is laid end to end.

  Args:
    path: any file that FFmpeg decodes.
    wanted: what to get, by a name of the caller's.
    notes: gets a line for a file that is damaged in part. The frames that decode are given; of a
      file cut short those before the cut are, so ``uniform`` may give fewer than N.

  Yields:
    (name, ``Frame``), or for sound (name, float32 (samples,)) in pieces of any length, to be laid
    end to end; nothing of a video without sound.

  Raises:
    VideoError: no such file, empty, damaged beyond use, or frames are wanted and there are none.
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
  album, resamplers = _Album(av), _Resamplers(av, {*sounds.values()})

  def heard(frame):
    for rate, piece in resamplers.of(frame):
      for key in (k for k, r in sounds.items() if r == rate):
        yield key, piece

  def seen(shown: sampling.Shown | None):
    if shown is None:
      return
    for key, choose in choosers.items():
      for time, frame in choose(shown):
        counts[key] += 1
        yield key, Frame(time, album.picture(frame, pictures[key].form))

  watch = sampling.Watch()
  decoded = _decoded(av, path, bool(pictures), bool(sounds), notes)
  try:
    for seconds, frame in decoded:
      yield from heard(frame) if seconds is None else seen(watch.next(seconds, frame))
    yield from heard(None)
    yield from seen(watch.last())
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
  """Frames of one sampling, as central squares; errors and notes as of ``read``, and ValueError
  for a malformed sampling."""
  for _, frame in read(path, {'': Pictures(sampling.check(how), size)}, notes):
    assert isinstance(frame, Frame)
    yield frame
