"""Panels of attention over places: for each word a picture with heat on cells, or with boxes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from vidcap_jax.studies.panels import (
  CELL,
  HEAT,
  LEFT,
  LINE,
  SIZE,
  Gallery,
  Panel,
  bars,
  picture_of,
  show,
)
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained


@dataclasses.dataclass(frozen=True)
class Place:
  """What a picture shows: weights (N,) of the places of a frame.

  Attributes:
    weights: (N,).
    frame: None for the mean of all frames.
    frames: the attention whose frames are counted.
  """

  weights: np.ndarray
  frame: int | None
  frames: Attention


def strongest_places(
  attention: Attention, attentions: Mapping[str, Attention]
) -> list[list[Place]]:
  """The places to show by word and pick: those of the frame with the largest weight."""
  axes = attention.axes.axes
  weights = attention.weights
  if 'picks' not in axes:
    weights = weights[:, None]
  found = []
  chooser = attentions.get(attention.axes.frames)
  for word, of_word in enumerate(weights):
    row = []
    for pick, of_pick in enumerate(of_word):
      if of_pick.ndim == 2:  # (T, N)
        frame = int(of_pick.sum(axis=1).argmax())
        row.append(Place(of_pick[frame], frame, attention))
      elif chooser is not None:
        over = chooser.over('frames')[word]
        frame = int((over[pick] if over.ndim == 2 else over).argmax())
        row.append(Place(of_pick, frame, chooser))
      else:
        row.append(Place(of_pick, None, attention))
    found.append(row)
  return found


def places_panel(
  attention: Attention, explained: Explained, chosen: Chosen, gallery: Gallery
) -> Panel:
  """A picture for each word (a row of them for each pick) with heat where its weights are."""
  places = strongest_places(attention, explained.attentions)
  picks = max((len(row) for row in places), default=1)
  has_boxes = attention.grid is None and chosen.boxes is not None
  high = CELL + 2 * LINE + (0 if attention.grid or has_boxes else CELL / 2)

  def draw(place):
    for column, (word, row) in enumerate(zip(explained.words, places)):
      for pick, shown in enumerate(row):
        left, top = LEFT + column * CELL, pick * high
        axes = place(left, top, CELL * 0.96, CELL * 0.96)
        image, label = picture_of(chosen, gallery, shown.frames, shown.frame)
        if not shown.weights.any():  # such as at dualAFR's first word
          image, label = None, 'no weights'
        show(axes, image)
        _heat(axes, shown, attention, chosen, image)
        axes.set_xlabel(f'{word}\n{label}', fontsize=7, labelpad=2, parse_math=False)
        if not attention.grid and not has_boxes:
          bars(place(left, top + CELL + 2 * LINE, CELL * 0.96, CELL / 2 * 0.8), shown.weights)

  what = f'{attention.grid[0]} x {attention.grid[1]} cells' if attention.grid else 'regions'
  where = 'in the frame with the largest weight'
  if not attention.axes.frames and 'frames' not in attention.axes.axes:
    where = 'of the mean of all frames, on the middle one'
  title = f'{attention.name}: {what} of stream {attention.axes.stream}, {where}'
  title += f', a row for each of {picks} picks' if picks > 1 else ''
  return Panel(title, picks * high, draw)


def _heat(
  axes: Any, shown: Place, attention: Attention, chosen: Chosen, image: np.ndarray | None
) -> None:
  """Weights over a picture: cells upsampled to its size, or boxes drawn by their weight."""
  rows, columns = (SIZE, SIZE) if image is None else image.shape[:2]
  largest = max(float(shown.weights.max(initial=0)), 1e-9)
  if attention.grid is not None:
    axes.imshow(
      upsampled(shown.weights.reshape(attention.grid) / largest, rows, columns),
      extent=(0, columns, rows, 0),
    )
  elif chosen.boxes is not None and shown.frame is not None:
    stored = shown.frames.rows[shown.frame]
    boxes = np.asarray(chosen.boxes[stored], float)
    for weight, (left, top, right, bottom) in sorted(
      zip(shown.weights, boxes.tolist()), key=lambda pair: float(pair[0])
    ):
      corners = left * columns, top * rows, right * columns, bottom * rows
      axes.add_patch(_rectangle(*corners, weight / largest))
  axes.set(xlim=(0, columns), ylim=(rows, 0))


def upsampled(heat: np.ndarray, rows: int, columns: int) -> np.ndarray:
  """Heat (R, C) in [0, 1] as colours (rows, columns, 4), the more opaque the hotter."""
  from matplotlib import colormaps

  at = lambda cells, pixels: (np.arange(pixels) + 0.5) * cells / pixels - 0.5  # noqa: E731
  across = np.stack(
    [np.interp(at(heat.shape[1], columns), np.arange(heat.shape[1]), row) for row in heat]
  )
  large = np.stack(
    [np.interp(at(len(heat), rows), np.arange(len(heat)), column) for column in across.T], axis=1
  )
  colours = colormaps[HEAT](0.2 + 0.8 * large)
  colours[..., 3] = 0.75 * large
  return colours


def _rectangle(left: float, top: float, right: float, bottom: float, strength: float) -> Any:
  from matplotlib import colormaps
  from matplotlib.patches import Rectangle

  colour = colormaps[HEAT](0.15 + 0.8 * strength)
  width, height, line = right - left, bottom - top, 0.5 + 2 * strength
  return Rectangle((left, top), width, height, fill=False, edgecolor=colour, linewidth=line)
