"""Parts of figures of attention: the panels' layout and the pictures of a video's frames."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.errors import VideoError
from vidcap_jax.features import extractors, networks, video_stills
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention

CELL = 1.1  # inches of a column
LEFT, TOP = 1.15, 0.45  # inches left of the columns, and of a panel's title
LINE = 0.2  # inches of a line of text
SIZE = 160  # pixels of a picture's shorter side
HEAT, BARS = 'inferno', '#3b78c4'


@dataclasses.dataclass(frozen=True)
class Panel:
  """A part of the figure: its title, height in inches, and a function that draws it.

  ``draw(place)`` is called with a function (left, top, width, height) -> axes, in inches from the
  upper left corner of the panel.
  """

  title: str
  height: float
  draw: Callable[[Callable[..., Any]], None]


@dataclasses.dataclass(frozen=True)
class Gallery:
  """The pictures of a video that its panels show.

  Attributes:
    at: (stream, seconds) -> picture as the stream's network read it.
    notes: on damaged files.
  """

  at: Mapping[tuple[str, float], np.ndarray]
  notes: tuple[str, ...] = ()


def load_gallery(
  chosen: Chosen,
  streams: Collection[str],
  extractor_of: Mapping[str, str | None],
  size: int = SIZE,
) -> Gallery:
  """Decodes the frames of some streams; without a source there are no pictures.

  Frames of regions with boxes are shown whole, as boxes are fractions of the whole frame.

  Args:
    chosen: the video.
    streams: whose frames are shown.
    extractor_of: stream -> its extractor, which says what part of a frame was read.
    size: pixels of a picture's shorter side.
  """
  if chosen.source is None:
    return Gallery({})
  notes: list[str] = []
  at: dict[tuple[str, float], np.ndarray] = {}
  for stream in sorted({*streams} & {*chosen.times}):
    times = chosen.times[stream].seconds
    whole, zoom = picture_form(extractor_of.get(stream))
    if chosen.boxes is not None and chosen.video.features[stream].ndim == 3:
      whole, zoom = True, 1.0
    try:
      images = video_stills.pictures_at(
        chosen.source, times, size, whole=whole, zoom=zoom, notes=notes
      )
    except VideoError as error:
      return Gallery({}, (f'{chosen.video.video_id}: no pictures: {error}',))
    at |= {(stream, time): image for time, image in zip(times, images)}
  return Gallery(at, tuple(dict.fromkeys(notes)))


def picture_form(extractor: str | None) -> tuple[bool, float]:
  """Whether a network reads whole frames, and how far it scales them before it cuts a square."""
  try:
    network = networks.NETWORKS[extractors.get(extractor or '').network]
  except (extractors.ExtractorError, KeyError):
    return False, 1.0
  if network.size is None or network.stretch:
    return True, 1.0
  return False, (network.scale or network.size) / network.size


def show(axes: Any, image: np.ndarray | None) -> None:
  """A picture without ticks; a grey square where there is none."""
  axes.set(xticks=[], yticks=[])
  if image is None:
    axes.set(xlim=(0, SIZE), ylim=(SIZE, 0), aspect='equal', facecolor='#e6e9ec')
  else:
    axes.imshow(image)


def seconds_of(chosen: Chosen, attention: Attention, frames: int) -> list[float] | None:
  """The time of each frame of an attention, where known."""
  times = chosen.times.get(attention.axes.stream)
  if times is None or len(attention.rows) < frames:
    return None
  return [times.seconds[row] for row in attention.rows[:frames]]


def frame_label(chosen: Chosen, attention: Attention, frame: int) -> str:
  """When a frame is on screen, or its number where that is not known."""
  seconds = seconds_of(chosen, attention, frame + 1)
  if seconds is None:
    return f'frame {frame}'
  in_seconds = chosen.times[attention.axes.stream].unit == 'seconds'
  return f'{seconds[frame]:.1f} s' if in_seconds else f'picture {int(seconds[frame])}'


def picture_of(
  chosen: Chosen, gallery: Gallery, attention: Attention, frame: int | None
) -> tuple[np.ndarray | None, str]:
  """The picture of an attention's frame and its label; None: the middle one, for all frames."""
  stream = attention.axes.stream
  if frame is None:
    times = chosen.times.get(stream)
    middle = times.seconds[len(times.seconds) // 2] if times else None
    return gallery.at.get((stream, middle)) if middle is not None else None, 'all frames'
  seconds = seconds_of(chosen, attention, frame + 1)
  picture = None if seconds is None else gallery.at.get((stream, seconds[frame]))
  return picture, frame_label(chosen, attention, frame)


def bars(axes: Any, weights: np.ndarray, names: Sequence[str] = ()) -> None:
  axes.bar(range(len(weights)), weights, color=BARS)
  axes.set(ylim=(0, 1), yticks=[])
  axes.set_xticks(range(len(names)), names, fontsize=5, rotation=30)
  axes.spines[['top', 'right']].set_visible(False)
