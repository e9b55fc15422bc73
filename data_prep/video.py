"""Frames of a video file at chosen times, upright, as square RGB arrays.

Decoding is PyAV's (the extra ``video``). Frames come one at a time, so memory does not grow with
the video's length. A sampling is one of

* ``{'uniform': N}``: what is on screen at the middle of each of N equal parts of the video,
* ``{'every': n}``: frames 0, n, 2n, …, as decoded,
* ``{'fps': x}``: what is on screen at 0, 1/x, 2/x, … seconds.
"""

import collections
import pathlib
from collections.abc import Generator, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from vidcap_jax.errors import UserError

SAMPLINGS = ('uniform', 'every', 'fps')
_MOST_ERRORS = 10_000  # a file that gives no more than errors is given up


class VideoError(UserError):
  """A file that gives no frame at all; the message names the file and says why."""


class Frame(NamedTuple):
  """A sampled frame.

  Attributes:
    time: seconds after the video's first frame at which it was sampled.
    image: uint8 (size, size, 3), RGB, upright.
  """

  time: float
  image: np.ndarray


def check_sampling(sampling: Mapping[str, Any]) -> dict[str, int | float]:
  """A sampling in its canonical form; ValueError for anything else."""
  if not isinstance(sampling, Mapping) or len(sampling) != 1 or set(sampling) - set(SAMPLINGS):
    raise ValueError(f'sampling {sampling!r}: {", ".join(SAMPLINGS)} expected, with a number')
  ((how, amount),) = sampling.items()
  whole = isinstance(amount, int) or (isinstance(amount, float) and amount.is_integer())
  if isinstance(amount, bool) or not isinstance(amount, int | float) or not 0 < amount < np.inf:
    raise ValueError(f'sampling {how}={amount!r}: a number above 0 expected')
  if how == 'fps':
    return {'fps': float(amount)}
  if not whole:
    raise ValueError(f'sampling {how}={amount!r}: a whole number expected')
  return {how: int(amount)}


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


def _video_stream(av, container, path):
  """The first stream of moving pictures; a music file's cover picture is not one."""
  for stream in container.streams.video:
    if not stream.disposition & av.stream.Disposition.attached_pic:
      stream.codec_context.thread_count = 1  # callers decode several files at once instead
      return stream
  raise VideoError(f'{path}: no video stream ({len(container.streams)} other streams)')


def _open(av, path: pathlib.Path):
  if not path.is_file():
    raise VideoError(f'{path}: no such file')
  if path.stat().st_size == 0:
    raise VideoError(f'{path}: the file is empty')
  try:
    return av.open(str(path), metadata_errors='replace')
  except (av.FFmpegError, OSError, ValueError) as error:
    reason = getattr(error, 'strerror', None) or error
    raise VideoError(f'{path}: not a video that can be opened ({reason})') from None


def _note_cut(av, container, stream, path, reached: float, notes: list[str]) -> None:
  """Notes a video that ends well before its header says."""
  if stream.duration is not None and stream.time_base is not None:
    declared = float(stream.duration * stream.time_base)
  elif container.duration is not None and len(container.streams) == 1:  # no longer sound beside it
    declared = container.duration / av.time_base
  else:
    return
  if reached < 0.9 * declared - 0.5:
    notes.append(f'{path}: cut short after {reached:.1f} of {declared:.1f} seconds')


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
    _note_cut(av, container, stream, path, times[-1] - times[0] if times else 0.0, notes)
  return times


def _decoded(av, path: pathlib.Path, notes: list[str]) -> Generator[tuple[float, Any], None, None]:
  """(seconds, frame) of everything that decodes, in order of presentation."""
  failed: collections.Counter[str] = collections.Counter()
  count = corrupt = 0
  start = seconds = 0.0
  try:
    with _open(av, path) as container:
      stream = _video_stream(av, container, path)
      rate = float(stream.average_rate or stream.guessed_rate or 25)
      packets = container.demux(stream)
      while failed.total() < _MOST_ERRORS:
        try:
          frames = next(packets).decode()
        except (StopIteration, av.EOFError):
          break
        except av.FFmpegError as error:
          failed[error.strerror or str(error)] += 1
          continue
        for frame in frames:
          seconds = count / rate if frame.pts is None else float(frame.pts * frame.time_base)
          start = seconds if not count else start
          count += 1
          corrupt += frame.is_corrupt
          yield seconds, frame
      _note_cut(av, container, stream, path, seconds - start, notes)
    if not count:
      reason = '; '.join(failed) or 'it holds no frames'
      raise VideoError(f'{path}: no frame can be decoded ({reason})')
  finally:  # also when the caller has seen enough
    if count and (failed or corrupt):
      reasons = [f'{reason} ({n} times)' for reason, n in failed.items()]
      reasons += [f'{corrupt} of {count} decoded frames incomplete'] if corrupt else []
      notes.append(f'{path}: damaged: {", ".join(reasons)}')


def _uniform_times(times: list[float], parts: int) -> list[float]:
  """The middles of equal parts of a video whose frames have these times."""
  span = times[-1] - times[0] if times else 0.0
  # The last frame stays on screen as long as the others do on average.
  length = span + span / max(len(times) - 1, 1)
  return [length * (i + 0.5) / parts for i in range(parts)]


def _on_screen(frames: Iterator[tuple[float, Any]], targets: Iterator[float], slack: float):
  """(target, frame on screen then), for ascending targets until the last frame has gone.

  The last frame stays as long as the others do on average, and ``slack`` of that, since times are
  rounded to the container's clock.
  """
  target = next(targets, None)
  shown = None
  count, start, before = 0, 0.0, 0.0
  for seconds, frame in frames:
    if shown is None:
      start = before = seconds
    while shown is not None and target is not None and start + target < seconds:
      yield target, shown
      target = next(targets, None)
    # After the last target the rest is decoded all the same, to know of damage there.
    count, before, shown = count + 1, seconds, frame
  end = before + (1 + slack) * (before - start) / max(count - 1, 1)
  while shown is not None and target is not None and (target == 0 or start + target < end):
    yield target, shown
    target = next(targets, None)


def _every(frames: Iterator[tuple[float, Any]], step: int):
  start = None
  for i, (seconds, frame) in enumerate(frames):
    start = seconds if start is None else start
    if i % step == 0:
      yield seconds - start, frame


def _multiples(step: float) -> Iterator[float]:
  i = 0
  while True:
    yield i * step
    i += 1


def _square(frame, reformatter, size: int) -> np.ndarray:
  """The frame's central square, upright, as uint8 (size, size, 3) RGB."""
  scale = size / min(frame.width, frame.height)
  width, height = (max(size, round(n * scale)) for n in (frame.width, frame.height))
  small = reformatter.reformat(frame, width, height, 'rgb24', interpolation='BICUBIC')
  image = small.to_ndarray()
  top, left = (height - size) // 2, (width - size) // 2
  image = image[top : top + size, left : left + size]
  # The tag says by how much to turn the stored picture anticlockwise to show it upright.
  return np.ascontiguousarray(np.rot90(image, round(frame.rotation / 90)))


def sample(
  path: str | pathlib.Path,
  sampling: Mapping[str, Any],
  size: int = 224,
  notes: list[str] | None = None,
) -> Iterator[Frame]:
  """Frames of a video, one at a time.

  A frame is scaled so that its shorter side has ``size`` pixels (bicubic), its central square is
  kept, and it is turned as the file's display matrix says (in steps of 90 degrees).

  Args:
    path: any file that FFmpeg decodes.
    sampling: ``{'uniform': N}``, ``{'every': n}`` or ``{'fps': x}``; see the module. Where the
      video has fewer frames than asked for, ``uniform`` and ``fps`` repeat frames.
    size: rows and columns of the result.
    notes: gets a line for a file that is damaged in part. The frames that decode are given; of a
      file cut short those before the cut are, so ``uniform`` may give fewer than N.

  Raises:
    VideoError: no frame at all: no such file, empty, no video stream, damaged beyond use.
    ValueError: a malformed sampling.
    ModuleNotFoundError: PyAV is not installed.
  """
  ((how, amount),) = check_sampling(sampling).items()
  notes = [] if notes is None else notes
  av = import_av()
  path = pathlib.Path(path)
  reformatter = av.video.reformatter.VideoReformatter()
  frames = _decoded(av, path, notes)
  if how == 'every':
    chosen = _every(frames, int(amount))
  elif how == 'uniform':
    times = _uniform_times(_packet_times(av, path, notes), int(amount))
    chosen = _on_screen(frames, iter(times), 0.5)  # all of these are within the video
  else:
    chosen = _on_screen(frames, _multiples(1 / amount), -0.05)
  count = 0
  last, image = None, np.empty(0, np.uint8)
  try:
    for seconds, frame in chosen:
      if frame is not last:
        last, image = frame, _square(frame, reformatter, size)
      count += 1
      yield Frame(seconds, image)
  finally:
    frames.close()
  if how == 'uniform' and count < amount:
    notes.append(f'{path}: {count} of {amount} frames could be sampled')
