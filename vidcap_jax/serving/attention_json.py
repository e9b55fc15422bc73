"""The attention of a caption as JSON: weights of each word, and when the frames are on screen."""

import bisect
from collections.abc import Mapping
from typing import Any

import numpy as np

from vidcap_jax.models.attention_axes import Attention
from vidcap_jax.serving.media import Decoded

_DIGITS = 5


def describe(caption: str, attention: Mapping[str, Attention], decoded: Decoded) -> dict[str, Any]:
  """The ``attention`` of a result.

  Args:
    caption: whose words the weights are of.
    attention: by name.
    decoded: of the file, with times and pictures; of features without.
  """
  keys = sorted({key for each in attention.values() for key in _frame_keys(each, decoded)})
  places = {key: place for place, key in enumerate(keys)}
  return {
    'words': caption.split(' ') if caption else [],
    'frames': [_frame(key, decoded) for key in keys],
    'maps': [_map(name, each, decoded, places) for name, each in attention.items()],
  }


def _frame_keys(attention: Attention, decoded: Decoded) -> list[tuple[float, int]]:
  """What identifies the frames of an attention: their time, or without times their row."""
  count = len(attention.rows)  # of which places without frames are the mean
  if 'frames' in attention.axes.axes:
    count = attention.over('frames').shape[-1]
  if decoded.pictures and not decoded.times:  # a picture, sampled several times
    return [(-1.0, 0)] * count
  times = decoded.times.get(attention.axes.stream, ())
  rows = [int(row) for row in attention.rows][:count]
  rows += range(len(rows), count)
  return [(times[row], 0) if row < len(times) else (-1.0, row) for row in rows]


def _frame(key: tuple[float, int], decoded: Decoded) -> dict[str, Any]:
  time, _ = key
  if time < 0:  # a picture, or features
    return {'time': None, 'picture': decoded.pictures.get(0.0) if not decoded.times else None}
  return {'time': round(time, 3), 'picture': decoded.pictures.get(_nearest(time, decoded))}


def _nearest(time: float, decoded: Decoded) -> float:
  """The time of the picture of this moment, which differs by rounding at most."""
  times = sorted(decoded.pictures)
  place = bisect.bisect_left(times, time - 1e-6)
  near = times[place : place + 1]
  return near[0] if near and near[0] <= time + 1e-6 else -1.0


def _map(
  name: str, attention: Attention, decoded: Decoded, places: Mapping[tuple[float, int], int]
) -> dict[str, Any]:
  axes = attention.axes
  return {
    'name': name,
    'stream': axes.stream,
    'axes': list(axes.axes),
    'labels': list(axes.names),
    'grid': None if attention.grid is None else list(attention.grid),
    'frames': [places[key] for key in _frame_keys(attention, decoded)],
    'weights': _rounded(attention.weights),
    'over_frames': _over(attention, 'frames'),
    'over_places': _over(attention, 'places'),
  }


def _over(attention: Attention, axis: str) -> list | None:
  """The weights over one axis, (L, N); picks are summed."""
  if axis not in attention.axes.axes:
    return None
  weights = attention.over(axis)
  return _rounded(weights.sum(axis=1) if weights.ndim > 2 else weights)


def _rounded(weights: np.ndarray) -> list:
  return np.round(np.asarray(weights, float), _DIGITS).tolist()
