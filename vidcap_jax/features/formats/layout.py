"""The order of a stream's axes, declared by letters or told from the arrays' shapes.

T is time (frames), C the channels, N regions, H and W rows and columns; 1 is an axis of size 1,
which goes. Any order is a layout: ``CT`` has the channels first, ``1CTHW`` is what a 3D network
gives for a batch of one. Which letters there are tells the kind. ``HWC`` and ``NC`` are a grid and
regions of one frame, as of an image: they get an axis T of size 1.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.errors import DataError

# The axes of each kind in the order of storage.
AXES = {'vector': 'C', 'sequence': 'TC', 'regions': 'TNC', 'grid': 'THWC'}
_ONE_FRAME = {'grid': 'HWC', 'regions': 'NC'}
_KIND = {frozenset(axes): kind for of in (AXES, _ONE_FRAME) for kind, axes in of.items()}
_EXAMPLES = 'C, TC, CT, 1TC, TNC, NC, THWC, TCHW, HWC'

Shape = tuple[int, ...]
Doubt = tuple[str, Mapping[str, str]]  # What is odd, and the layouts it may be with their meanings.


@dataclasses.dataclass(frozen=True)
class Layout:
  """One order of axes; ``axes`` as declared."""

  axes: str

  @property
  def letters(self) -> str:
    return self.axes.replace('1', '')

  @property
  def kind(self) -> str:
    return _KIND[frozenset(self.letters)]

  def shape(self, shape: Shape) -> Shape | None:
    """A shape in the order of storage; None if it isn't of this layout."""
    if self.axes == 'C' and len(shape) == 2 and shape[0] == 1:
      return shape[1:]  # Vectors are often saved as (1, D); declared as vectors, these are meant.
    if len(shape) != len(self.axes):
      return None
    sizes = dict(zip(self.axes, shape, strict=True))
    if any(size != 1 for axis, size in zip(self.axes, shape, strict=True) if axis == '1'):
      return None
    return tuple(sizes.get(axis, 1) for axis in AXES[self.kind])

  def order(self, array: np.ndarray) -> np.ndarray:
    """An array with its axes in the order of storage.

    Raises:
      DataError: its shape isn't of this layout.
    """
    shape = self.shape(array.shape)
    if shape is None:
      raise DataError(f'shape {array.shape} is not of the layout {self.axes}')
    if self.kind == 'vector':
      return array.reshape(shape)
    kept = array.reshape([n for n, axis in zip(array.shape, self.axes) if axis != '1'])
    order = [self.letters.index(axis) for axis in AXES[self.kind] if axis in self.letters]
    return kept.transpose(order).reshape(shape)


def parse(text: str) -> Layout:
  """A layout from its letters; DataError if they are no kind's."""
  layout = Layout(text)
  if len(set(layout.letters)) != len(layout.letters) or frozenset(layout.letters) not in _KIND:
    raise DataError(
      f'unknown layout {text!r}; one of {_EXAMPLES}, or the same letters in another order, with '
      'a 1 for each axis of size 1'
    )
  return layout


def declared_or_stored(kind: str, declared: str | None) -> Layout:
  """The layout that is declared, or else that in which a kind is stored."""
  return parse(declared) if declared else Layout(AXES[kind])


def settle(shapes: Sequence[Shape], kind: str | None, stream: str) -> Layout:
  """The layout of arrays for which none is declared: that of the kind, or by the number of axes.

  Raises:
    DataError: no kind has that many axes, or the shapes may mean several layouts (two square axes,
      say), which is then to be declared.
  """
  if kind is not None:
    return Layout(AXES[kind])
  ((rank, _),) = collections.Counter(map(len, shapes)).most_common(1)
  of_rank = {len(axes): Layout(axes) for axes in AXES.values()}
  if rank not in of_rank:
    known = ', '.join(f'{len(axes)} ({axes}, {kind})' for kind, axes in AXES.items())
    raise DataError(
      f'arrays with {rank} axes; known are {known}; declare the order of others with '
      f'--layout={stream}=…'
    )
  doubts: Mapping[int, Doubt | None] = {
    2: _doubt_sequence([s for s in shapes if len(s) == 2]),
    3: _doubt_regions([s for s in shapes if len(s) == 3]),
    4: _doubt_grid([s for s in shapes if len(s) == 4]),
  }
  if doubt := doubts.get(rank):
    what, readings = doubt
    ways = ' or '.join(f'--layout={stream}={axes} ({means})' for axes, means in readings.items())
    raise DataError(f'all arrays tried are like {shapes[0]}{what}: say which it is with {ways}')
  return of_rank[rank]


def _doubt_sequence(shapes: Sequence[Shape]) -> Doubt | None:
  if not shapes:
    return None
  first, last = ({s[axis] for s in shapes} for axis in (0, 1))
  if first == last and len(first) == 1:
    return '', {'TC': 'frames first', 'CT': 'channels first'}
  if len(first) == 1 and len(last) > 1 and 2 * _most(shapes, 1) <= len(shapes):
    return ', only the second axis varies', {'CT': 'channels first', 'TC': 'frames first'}
  return None


def _doubt_regions(shapes: Sequence[Shape]) -> Doubt | None:
  regions = {'TNC': 'regions of each frame'}
  if not shapes:
    return None
  if all(s[0] == 1 for s in shapes):
    return '', {'1TC': 'frames of a batch of one'} | {'TNC': 'regions of one frame'}
  if all(s[0] == s[1] for s in shapes):
    return '', {'HWC': 'the cells of one frame'} | regions
  if all(s[1] == s[2] for s in shapes):
    return '', {'CHW': 'the cells of one frame, channels first'} | regions
  return None


def _doubt_grid(shapes: Sequence[Shape]) -> Doubt | None:
  for _, *fixed in shapes:
    rows, columns, channels = fixed
    if rows == columns != channels or channels > max(rows, columns):
      return None
  return ('', {'THWC': 'channels last', 'TCHW': 'channels first'}) if shapes else None


def _most(shapes: Sequence[Shape], axis: int) -> int:
  return collections.Counter(s[axis] for s in shapes).most_common(1)[0][1]
