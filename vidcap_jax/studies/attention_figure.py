"""Draws a caption's attention: strips of frames, heat on pictures, bars of layers, curves.

Every attention has a panel, drawn by its axes. Columns are words where there is a picture for each
(as in STaTS Figures 6 to 9, refocus Figure 4 and dualAFR Figure 3), frames otherwise.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vidcap_jax.studies.drawing import figure, save, shown
from vidcap_jax.studies.panels import (
  CELL,
  HEAT,
  LEFT,
  LINE,
  TOP,
  Gallery,
  Panel,
  bars,
  frame_label,
  picture_of,
  seconds_of,
  show,
)
from vidcap_jax.studies.place_panels import places_panel
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained


def draw(explained: Explained, chosen: Chosen, gallery: Gallery, path: Path) -> None:
  """Writes the figure of a caption.

  Args:
    explained: the caption and its attentions.
    chosen: the video, for times and boxes.
    gallery: of ``load_gallery``.
    path: of the picture, in the format of its suffix.

  Raises:
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  panels = [
    panel
    for attention in explained.attentions.values()
    for panel in panels_of(attention, explained, chosen, gallery)
  ]
  columns = max(6, len(explained.words))
  width = LEFT + columns * CELL + 0.2
  height = TOP + sum(panel.height + TOP for panel in panels)
  picture = figure(figsize=(width, height))
  picture.set_layout_engine('none')  # places are in inches
  line = {'va': 'center', 'parse_math': False}
  title = f'{explained.video.video_id}: {shown(explained.caption)}'
  picture.text(0.1 / width, 1 - 0.2 / height, title, fontsize=12, fontweight='bold', **line)
  top = TOP
  for panel in panels:
    picture.text(0.1 / width, 1 - (top + 0.12) / height, panel.title, fontsize=9, **line)
    panel.draw(_placer(picture, width, height, top + 0.3))
    top += panel.height + TOP
  save(picture, path)


def _placer(picture: Any, width: float, height: float, begin: float) -> Callable[..., Any]:
  """A function (left, top, width, height) -> axes, in inches from ``begin`` inches down on."""

  def place(left: float, top: float, wide: float, high: float) -> Any:
    bottom = height - begin - top - high
    return picture.add_axes((left / width, bottom / height, wide / width, high / height))

  return place


def panels_of(
  attention: Attention, explained: Explained, chosen: Chosen, gallery: Gallery
) -> list[Panel]:
  """The panels of one attention."""
  axes = attention.axes.axes
  panels = []
  if 'frames' in axes:
    panels.append(_frames_panel(attention, explained, chosen, gallery))
  if 'places' in axes and attention.weights.shape[1 + axes.index('places')] > 1:
    panels.append(places_panel(attention, explained, chosen, gallery))
  if 'layers' in axes:
    panels.append(_layers_panel(attention, explained, chosen, gallery))
  if 'branches' in axes:
    panels.append(_branches_panel(attention, explained))
  if 'words' in axes:
    panels.append(_words_panel(attention, explained))
  return panels


# ------------------------------------------------------------------------------ frames


def _frames_panel(
  attention: Attention, explained: Explained, chosen: Chosen, gallery: Gallery
) -> Panel:
  """A row of weights over frames for each word, below a strip of the video's pictures."""
  weights = attention.over('frames')  # (L, [K,] T)
  picks = weights if weights.ndim == 3 else None
  weights = weights.max(axis=1) if picks is not None else weights
  L, T = weights.shape
  seconds = seconds_of(chosen, attention, T)
  columns = max(6, L)
  wide = columns * CELL
  every = max(1, -(-T // (2 * columns)))  # frames from one picture to the next
  pictured = range(every // 2, T, every)
  stream = attention.axes.stream
  images = [gallery.at.get((stream, seconds[t])) if seconds else None for t in pictured]
  has_pictures = any(image is not None for image in images)
  strip = min(every * wide / T, CELL) if has_pictures else 0.0

  def draw(place):
    for t, image in zip(pictured, images if has_pictures else ()):
      middle = LEFT + (t + 0.5) * wide / T  # of the frame's column of weights
      show(place(middle - strip / 2, 0, strip * 0.97, strip), image)
    matrix = place(LEFT, strip + 0.03, wide, LINE * max(L, 1))
    if not L:
      return
    matrix.imshow(weights, aspect='auto', cmap=HEAT, vmin=0, vmax=max(weights.max(), 1e-9))
    matrix.set_yticks(range(L), explained.words, fontsize=8)
    labels = [frame_label(chosen, attention, t) for t in pictured]
    matrix.set_xticks(pictured, labels, fontsize=7)
    for word, pick, t in np.argwhere(picks > 0.5) if picks is not None else ():
      matrix.text(t, word, str(pick + 1), fontsize=7, color='#2e7d32', ha='center', va='center')

  how = chosen.times[stream].how if seconds else 'times not known'
  largest = weights.max() if weights.size else 0.0
  title = f'{attention.name}: {T} frame{"s" * (T != 1)} of stream {stream} ({how})'
  title += f', white is {largest:.2f}'
  title += ', numbers are picks' if picks is not None else ''
  return Panel(title, strip + 0.03 + LINE * max(L, 1) + LINE, draw)


# ------------------------------------------------------------------------------ layers and branches


def _layers_panel(
  attention: Attention, explained: Explained, chosen: Chosen, gallery: Gallery
) -> Panel:
  """Bars of the layers for each word, above the frame with the largest weight."""
  over_frames = next((a for a in explained.attentions.values() if 'frames' in a.axes.axes), None)
  frames = over_frames.over('frames').argmax(axis=-1) if over_frames else None

  def draw(place):
    for column, word in enumerate(explained.words):
      left = LEFT + column * CELL
      below = place(left + 0.1, 0, CELL * 0.8, CELL * 0.6)
      bars(below, attention.weights[column], attention.axes.names)
      axes = place(left, CELL * 0.6 + LINE, CELL * 0.96, CELL * 0.96)
      label, image = '', None
      if frames is not None and over_frames is not None:
        image, label = picture_of(chosen, gallery, over_frames, int(frames[column]))
      if not attention.weights[column].any():  # such as at dualAFR's first word
        image, label = None, 'no weights'
      show(axes, image)
      axes.set_xlabel(f'{word}\n{label}', fontsize=7, labelpad=2, parse_math=False)

  title = f'{attention.name}: bars from 0 to 1'
  title += f', above the frame with the largest weight of {over_frames.name}' if over_frames else ''
  return Panel(title, CELL * 1.6 + 3 * LINE, draw)


def _branches_panel(attention: Attention, explained: Explained) -> Panel:
  """A curve over words for each branch."""
  L = len(explained.words)

  def draw(place):
    axes = place(LEFT, 0, max(6, L) * CELL, CELL)
    for name, curve in zip(attention.axes.names, attention.weights.T):
      axes.plot(np.arange(L) + 0.5, curve, marker='o', markersize=3, label=name)
    axes.set(xlim=(0, max(6, L)), ylim=(0, 1))
    axes.set_xticks(np.arange(L) + 0.5, explained.words, fontsize=8)
    axes.tick_params(axis='y', labelsize=7)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc='upper right')

  return Panel(f'{attention.name}: weights of the branches', CELL + LINE, draw)


def _words_panel(attention: Attention, explained: Explained) -> Panel:
  """Weights over the words read so far; the first that is read is the start of the caption."""
  read = ('(start)', *explained.words[:-1])
  L = len(explained.words)

  def draw(place):
    axes = place(LEFT, 0, max(L, 1) * CELL, LINE * max(L, 1))
    if not L:
      return
    axes.imshow(attention.weights[:, :L], aspect='auto', cmap=HEAT, vmin=0, vmax=1)
    axes.set_xticks(range(L), read, fontsize=8)
    axes.set_yticks(range(L), explained.words, fontsize=8)

  return Panel(f'{attention.name}: words read so far', LINE * max(L, 1) + LINE, draw)
