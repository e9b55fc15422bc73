"""Reads a video in one pass: upright pictures at chosen times, and pieces of sound.

Frames and sound are yielded as ``video_decoder`` decodes them, so memory does not grow with the
video's length. Pictures in files are read as videos, see ``picture_files``.
"""

import dataclasses
import pathlib
from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from vidcap_jax.errors import VideoError as VideoError
from vidcap_jax.features import picture_files, sampling
from vidcap_jax.features.clock import Clock
from vidcap_jax.features.picture_files import FrameDecoder, FrameFiles, Source
from vidcap_jax.features.pictures import PictureCache
from vidcap_jax.features.sound import Resamplers
from vidcap_jax.features.video_decoder import Decoded, decoded_parts, file_clock, import_av

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
  return file_clock(import_av(), source, pictures=True, sound=False)


def _numbered(frames: FrameFiles) -> Generator[Decoded, None, None]:
  """The places of frames in a list of files; a place is decoded once it is chosen."""
  for place, moment in enumerate(frames.clock.moments):
    yield Decoded(False, moment, place)


def _decode(
  av, source: Source, pictures: bool, sound: bool, notes: list[str]
) -> tuple[Clock, Generator[Decoded, None, None], FrameDecoder | None]:
  """The clock, the frames and sound, and for files of frames what decodes the chosen ones."""
  files = picture_files.frames_of(source)
  if files is not None:
    return files.clock, _numbered(files), FrameDecoder(av, files)
  assert isinstance(source, pathlib.Path)
  clock = file_clock(av, source, pictures, sound)
  return clock, decoded_parts(av, source, clock, pictures, sound, notes), None


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
  clock, decoded, decoder = _decode(av, path, bool(pictures), bool(sounds), notes)
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
