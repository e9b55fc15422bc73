"""Decoded frames as upright pictures with square pixels, scaled and cut as networks read them."""

import collections
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np


class PictureCache:
  """Pictures of the last requested frame; each form is made once.

  Args:
    av: PyAV.
    aspect: width of a stored pixel over its height.
    decode: turns a requested frame into PyAV's; None: they are PyAV's.
  """

  def __init__(
    self, av, aspect: Fraction = Fraction(1), decode: Callable[[Any], Any] | None = None
  ):
    self._reformatters: dict[tuple, Any] = collections.defaultdict(
      av.video.reformatter.VideoReformatter
    )
    self._aspect, self._decode = aspect, decode
    self._frame: Any = None
    self._decoded: Any = None
    self._images: dict[tuple, np.ndarray] = {}

  def picture(self, frame, form: tuple[int | None, int | None]) -> np.ndarray:
    """A frame as uint8 (rows, columns, 3), RGB, upright.

    Args:
      frame: PyAV's, or what ``decode`` turns into PyAV's.
      form: (size, length of the shorter side), see ``video.Pictures``.
    """
    if frame is not self._frame:
      self._frame, self._images = frame, {}
      self._decoded = self._decode(frame) if self._decode else frame
    if form not in self._images:
      self._images[form] = _picture(self._decoded, self._reformatters[form], *form, self._aspect)
    return self._images[form]


def _picture(
  frame, reformatter, size: int | None, scale: int | None, aspect: Fraction
) -> np.ndarray:
  if size is not None and scale is None:  # the whole frame as a square
    width = height = size
  else:
    sides = (frame.width * float(aspect), float(frame.height))
    factor = (scale or min(sides)) / min(sides)
    width, height = (max(size or 1, round(side * factor)) for side in sides)
  small = reformatter.reformat(frame, width, height, 'rgb24', interpolation='BICUBIC')
  image = small.to_ndarray()
  if size is not None:
    top, left = (height - size) // 2, (width - size) // 2
    image = image[top : top + size, left : left + size]
  return np.ascontiguousarray(_upright(image, _display_matrix(frame)))


# Quarter turns anticlockwise -> display matrix.
_TURNS = ((1, 0, 0, 1), (0, -1, 1, 0), (-1, 0, 0, -1), (0, 1, -1, 0))


def _display_matrix(frame) -> tuple[int, int, int, int] | None:
  """(a, b, c, d) of a frame's display matrix: (x, y) is shown at (a x + c y, b x + d y)."""
  try:
    # Not by iterating, which gives the items up to PyAV 18 and their names from 19 on.
    matrix = frame.side_data.get('DISPLAYMATRIX')
  except ValueError:  # PyAV lacks a name for some kind of it, such as the EXIF data of Motion JPEG
    return _TURNS[round(frame.rotation / 90) % 4]
  if matrix is None:
    return None
  a, b, _, c, d, *_ = np.frombuffer(bytes(matrix), '<i4').tolist()
  return a, b, c, d


def _upright(image: np.ndarray, matrix: tuple[int, int, int, int] | None) -> np.ndarray:
  """A stored picture turned, in steps of 90 degrees, and mirrored as its matrix says."""
  if matrix is None:
    return image
  a, b, c, d = matrix
  if abs(a) < abs(b):  # rows are shown as columns
    image, across, down = image.swapaxes(0, 1), c, b
  else:
    across, down = a, d
  return image[:: -1 if down < 0 else 1, :: -1 if across < 0 else 1]
