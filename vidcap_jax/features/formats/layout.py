"""The order of a stream's axes: declared by letters, or inferred from the arrays' shapes.

T is time (frames), C the channels, N regions, H and W rows and columns; 1 is an axis of size 1 to
remove. The letters can be in any order: ``CT`` has the channels first, ``1CTHW`` is the output of a
3D network for a batch of one. The set of letters determines the kind. ``HWC`` and ``NC`` are a grid
and regions of one frame, e.g. of an image: they get an axis T of size 1.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.errors import DataError

# The axes of each kind in the order of storage.
AXES = {'vector': 'C', 'sequence': 'TC', 'regions': 'TNC', 'grid': 'THWC'}
_ONE_FRAME = {'grid': 'HWC', 'regions': 'NC'}
_KIND = {frozenset(axes): kind for kinds in (AXES, _ONE_FRAME) for kind, axes in kinds.items()}
_EXAMPLES = 'C, TC, CT, 1TC, TNC, NC, THWC, TCHW, HWC'

Shape = tuple[int, ...]
# What is ambiguous about shapes, and the possible layouts with their meanings.
Ambiguity = tuple[str, Mapping[str, str]]


@dataclasses.dataclass(frozen=True)
class Layout:
  """An order of axes; ``axes`` are its letters."""

  axes: str

  @property
  def letters(self) -> str:
    return self.axes.replace('1', '')

  @property
  def kind(self) -> str:
    return _KIND[frozenset(self.letters)]

  def shape(self, shape: Shape) -> Shape | None:
    """A shape in the order of storage; None if it does not fit this layout."""
    if self.axes == 'C' and len(shape) == 2 and shape[0] == 1:
      return shape[1:]  # vectors are often saved as (1, D)
    if len(shape) != len(self.axes):
      return None
    sizes = dict(zip(self.axes, shape, strict=True))
    if any(size != 1 for axis, size in zip(self.axes, shape, strict=True) if axis == '1'):
      return None
    return tuple(sizes.get(axis, 1) for axis in AXES[self.kind])

  def order(self, array: np.ndarray) -> np.ndarray:
    """An array with its axes in the order of storage.

    Raises:
      DataError: its shape does not fit this layout.
    """
    shape = self.shape(array.shape)
    if shape is None:
      raise DataError(f'shape {array.shape} does not fit the layout {self.axes}')
    if self.kind == 'vector':
      return array.reshape(shape)
    squeezed = array.reshape([n for n, axis in zip(array.shape, self.axes) if axis != '1'])
    order = [self.letters.index(axis) for axis in AXES[self.kind] if axis in self.letters]
    return squeezed.transpose(order).reshape(shape)


def parse(text: str) -> Layout:
  """Parses a layout; DataError if its letters are those of no kind."""
  layout = Layout(text)
  if len(set(layout.letters)) != len(layout.letters) or frozenset(layout.letters) not in _KIND:
    raise DataError(
      f'unknown layout {text!r}; one of {_EXAMPLES}, or the same letters in another order, with '
      'a 1 for each axis of size 1'
    )
  return layout


def declared_or_stored(kind: str, declared: str | None) -> Layout:
  """The declared layout; without one, the order in which the kind is stored."""
  return parse(declared) if declared else Layout(AXES[kind])


def infer(shapes: Sequence[Shape], kind: str | None, stream: str) -> Layout:
  """Infers the layout of arrays from the kind, or else from the number of axes.

  Raises:
    DataError: no kind has that many axes, or the shapes fit several layouts (e.g. with two equal
      axes), so that the layout must be declared.
  """
  if kind is not None:
    return Layout(AXES[kind])
  ((rank, _),) = collections.Counter(map(len, shapes)).most_common(1)
  by_rank = {len(axes): Layout(axes) for axes in AXES.values()}
  if rank not in by_rank:
    known = ', '.join(f'{len(axes)} ({axes}, {kind})' for kind, axes in AXES.items())
    raise DataError(
      f'arrays with {rank} axes; known are {known}; declare the order of others with '
      f'--layout={stream}=…'
    )
  ambiguities: Mapping[int, Ambiguity | None] = {
    2: _ambiguous_sequence([s for s in shapes if len(s) == 2]),
    3: _ambiguous_regions([s for s in shapes if len(s) == 3]),
    4: _ambiguous_grid([s for s in shapes if len(s) == 4]),
  }
  if ambiguity := ambiguities.get(rank):
    what, readings = ambiguity
    ways = ' or '.join(f'--layout={stream}={axes} ({means})' for axes, means in readings.items())
    raise DataError(
      f'the arrays have shapes like {shapes[0]}{what}, which fit several layouts; declare one: '
      f'{ways}'
    )
  return by_rank[rank]


def _ambiguous_sequence(shapes: Sequence[Shape]) -> Ambiguity | None:
  if not shapes:
    return None
  first, last = ({s[axis] for s in shapes} for axis in (0, 1))
  if first == last and len(first) == 1:
    return '', {'TC': 'frames first', 'CT': 'channels first'}
  if len(first) == 1 and len(last) > 1 and 2 * _most(shapes, 1) <= len(shapes):
    return ', only the second axis varies', {'CT': 'channels first', 'TC': 'frames first'}
  return None


def _ambiguous_regions(shapes: Sequence[Shape]) -> Ambiguity | None:
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


def _ambiguous_grid(shapes: Sequence[Shape]) -> Ambiguity | None:
  for _, *fixed in shapes:
    rows, columns, channels = fixed
    if rows == columns != channels or channels > max(rows, columns):
      return None
  return ('', {'THWC': 'channels last', 'TCHW': 'channels first'}) if shapes else None


def _most(shapes: Sequence[Shape], axis: int) -> int:
  return collections.Counter(s[axis] for s in shapes).most_common(1)[0][1]
