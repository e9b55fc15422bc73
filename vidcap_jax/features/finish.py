"""From a network's outputs for all inputs of a video to the array of a stream."""

import numpy as np


def join_windows(array: np.ndarray) -> np.ndarray:
  """Reshapes (windows, steps, …) to (windows * steps, …)."""
  return array.reshape(-1, *array.shape[2:])


def change(moments: np.ndarray) -> np.ndarray:
  """The change from each frame (T, D) to the next, and its absolute value: (T - 1, 2 D).

  A model that averages over time gets the net change from the first half of the channels, and the
  total amount of change from the second. A single frame gives one row of zeros.
  """
  steps = np.diff(moments, axis=0) if len(moments) > 1 else np.zeros_like(moments)
  return np.concatenate([steps, np.abs(steps)], axis=1)


def identity(array: np.ndarray) -> np.ndarray:
  return array


def mean(array: np.ndarray) -> np.ndarray:
  return array.mean(0)


def mean_frames(frames: int, array: np.ndarray) -> np.ndarray:
  """Means over every ``frames`` frames of (T, …); the last mean may be over fewer."""
  return np.stack([array[i : i + frames].mean(0) for i in range(0, len(array), frames)])


def mean_cells(cells: int, grid: np.ndarray) -> np.ndarray:
  """Means of equal blocks of a grid (T, rows, columns, D): (T, cells, cells, D)."""
  T, rows, columns, D = grid.shape
  return grid.reshape(T, cells, rows // cells, cells, columns // cells, D).mean((2, 4))
