"""Attention weights, and what they are over: declared by each model's config, read by studies."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from vidcap_jax.errors import ModelError, UserError

AXES = ('picks', 'heads', 'frames', 'places', 'entries', 'words', 'layers', 'branches')


@dataclasses.dataclass(frozen=True)
class AttentionAxes:
  """The axes of the weights of one attention.

  Attributes:
    axes: of ``AXES``, those of the weights after (B, S): the frames of ``stream``; the places of a
      frame, which are cells of a grid or regions; the entries of ``streams``; the words of the
      caption so far; the layers or branches in ``names``; and before them the picks of a model that
      makes several choices, or the heads in ``names``.
      Frames and places together may be stored as one axis, frame after frame.
    stream: whose frames and places they are.
    streams: whose entries they are, one stream after another: the frames of a sequence, the places
      of all frames, or the one entry of a vector.
    names: of the heads, layers or branches.
    frames: for places without frames, the attention whose weights choose the places' frame, for
      each pick if there are several; '' where all frames are read alike.
  """

  axes: tuple[str, ...]
  stream: str = ''
  names: tuple[str, ...] = ()
  frames: str = ''
  streams: tuple[str, ...] = ()

  def __post_init__(self):
    if unknown := [axis for axis in self.axes if axis not in AXES]:
      raise ModelError(f'AttentionAxes{self.axes}: unknown axes {unknown}; known: {AXES}')
    if {'frames', 'places'} & {*self.axes} and not self.stream:
      raise ModelError(f'AttentionAxes{self.axes}: name the stream of these frames or places')
    if 'entries' in self.axes and not self.streams:
      raise ModelError(f'AttentionAxes{self.axes}: name the streams of these entries')
    if {'heads', 'layers', 'branches'} & {*self.axes} and not self.names:
      raise ModelError(f'AttentionAxes{self.axes}: give the names of the heads, layers or branches')

  def shape(self, stored: Sequence[int], places: int = 1, entries: int = 0) -> tuple[int, ...]:
    """The size of each axis in ``axes``.

    Args:
      stored: the weights' shape after (B, S).
      places: of a frame of the stream, 1 for a sequence.
      entries: of all ``streams`` together.

    Raises:
      ValueError: the stored shape does not have these axes.
    """
    sizes = list(stored)
    if {'frames', 'places'} <= {*self.axes} and len(sizes) == len(self.axes) - 1:
      joined = self.axes.index('frames')
      sizes[joined : joined + 1] = [sizes[joined] // places, places]
    expected = {'places': places, 'entries': entries}
    expected |= dict.fromkeys(('heads', 'layers', 'branches'), len(self.names))
    wrong = len(sizes) != len(self.axes) or any(
      expected.get(axis, size) != size for axis, size in zip(self.axes, sizes)
    )
    if wrong or _product(sizes) != _product(stored):
      known = {axis: size for axis, size in expected.items() if axis in self.axes}
      raise ValueError(
        f'weights of shape {tuple(stored)} do not have the axes {self.axes}, {known}'
      )
    return tuple(sizes)


@dataclasses.dataclass(frozen=True)
class Attention:
  """The weights of one attention at the words of a caption.

  Attributes:
    name: as the model calls it.
    axes: what the weights are over.
    weights: (L, …), a row for each word and then the axes of ``axes``, without padding.
    rows: (T,) the rows of the stream's stored features that the frames are, or of which the places
      are the mean; empty without frames, and where another attention chooses the frame.
    grid: (rows, columns) of the places; None if they are regions or there are none.

  Example:
    >>> import vidcap_jax as vc
    >>> [result] = vc.load('runs/mine').caption('clip.mp4', attention=True)
    >>> attention = result.attention['temporal']
    >>> attention
    Attention('temporal', words x frames of image, weights (..., 3))
    >>> attention.axes.axes, attention.axes.stream, attention.over('frames').shape[1]
    (('frames',), 'image', 3)
  """

  name: str
  axes: AttentionAxes
  weights: np.ndarray
  rows: np.ndarray
  grid: tuple[int, int] | None = None

  def __repr__(self) -> str:
    stream = f' of {self.axes.stream}' if self.axes.stream else ''
    axes = ' x '.join(('words', *self.axes.axes))
    return f'Attention({self.name!r}, {axes}{stream}, weights {self.weights.shape})'

  def over(self, axis: str) -> np.ndarray:
    """The weights summed over all axes but the picks and the given one: (L, [K,] N).

    Raises:
      UserError: the attention has no such axis.
    """
    if axis not in self.axes.axes:
      known = ', '.join(self.axes.axes) or 'none'
      raise UserError(f'attention {self.name!r} has no axis {axis!r}; it has: {known}')
    kept = {0, *(1 + i for i, a in enumerate(self.axes.axes) if a in (axis, 'picks'))}
    return self.weights.sum(axis=tuple(i for i in range(self.weights.ndim) if i not in kept))


def _product(sizes: Sequence[int]) -> int:
  total = 1
  for size in sizes:
    total *= size
  return total


def places_of(masks: Mapping, stream: str) -> int:
  """N, the places of a frame by a batch's masks: 1 for a sequence, whose mask is (B, T)."""
  return masks[stream].shape[2] if stream and masks[stream].ndim == 3 else 1


def streams_of(axes: AttentionAxes, masks: Mapping) -> Iterator[tuple[AttentionAxes, slice]]:
  """The entries of each stream: what they are, and which of all ``entries``.

  A vector has one entry, which has no axes.
  """
  start = 0
  for stream in axes.streams:
    end = start + entries_of(masks, stream)
    kind = {1: (), 2: ('frames',), 3: ('frames', 'places')}[masks[stream].ndim]
    yield AttentionAxes(kind, stream), slice(start, end)
    start = end


def entries_of(masks: Mapping, stream: str) -> int:
  """How many entries a video has of a stream by a batch's masks: frames, places, or one vector."""
  return _product(masks[stream].shape[1:])
