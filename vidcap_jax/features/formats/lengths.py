"""Selects the frames of a video to store: streams of equal length, and limits."""

from collections.abc import Mapping

import numpy as np

from vidcap_jax.data.batch import subsample
from vidcap_jax.errors import DataError


def select_frames(
  features: Mapping[str, np.ndarray],
  align_by: Mapping[str, str],
  max_frames: Mapping[str, int],
  blocks: Mapping[str, int],
) -> dict[str, np.ndarray]:
  """Selects the frames to store of a video's arrays (T, …) by stream.

  Args:
    features: stream -> array.
    align_by, max_frames, blocks: as in ``Declarations``; ``align_by`` is its ``align``.

  Raises:
    DataError: streams differ in length and their policy is ``error``.
  """
  fitted = align(features, align_by)
  units = [max_frames[name] // block for name, block in blocks.items() if name in max_frames]
  if units:
    fitted = limit_on_clock(fitted, blocks, min(units))
  for name, most in max_frames.items():
    if name not in blocks:
      fitted[name] = limit(fitted[name], most)
  return fitted


def align(features: Mapping[str, np.ndarray], groups: Mapping[str, str]) -> dict[str, np.ndarray]:
  """Shortens the streams of each group to the length of the shortest one.

  Args:
    features: stream -> a video's array (T, …). Streams that the video lacks (T = 0) are ignored.
    groups: 'image+motion' -> what to do if lengths differ: ``truncate`` cuts off the end,
      ``resample`` keeps evenly spaced frames, the first and the last among them.

  Raises:
    DataError: lengths differ, and the policy is ``error``.
  """
  fitted = dict(features)
  for group, policy in groups.items():
    lengths = {name: len(features[name]) for name in group.split('+') if len(features[name])}
    shortest = min(lengths.values(), default=0)
    for name, length in lengths.items():
      if length == shortest:
        continue
      if policy == 'error':
        shown = ', '.join(f'{n} has {frames} frames' for n, frames in lengths.items())
        raise DataError(
          f'streams of different length: {shown}; to make them equal, build the data set with '
          f'--align={group}=resample or truncate'
        )
      fitted[name] = (
        limit(features[name], shortest) if policy == 'resample' else (features[name][:shortest])
      )
  return fitted


def limit(array: np.ndarray, most: int) -> np.ndarray:
  """At most ``most`` frames, evenly spaced, the first and the last among them; deterministic."""
  return array[subsample(len(array), most)]


def limit_on_clock(
  features: Mapping[str, np.ndarray], blocks: Mapping[str, int], most: int
) -> dict[str, np.ndarray]:
  """At most ``most`` units of a clock, the same units of every stream on it.

  Args:
    features: stream -> a video's array (T, …).
    blocks: stream on the clock -> frames of one unit; the last unit may have fewer.
    most: number of units, chosen like the frames in ``limit``.
  """
  fitted = dict(features)
  units = max(-(-len(features[name]) // block) for name, block in blocks.items())
  chosen = subsample(units, most)
  for name, block in blocks.items():
    frames = (chosen[:, None] * block + np.arange(block)).ravel()  # (units, block) in a row
    fitted[name] = features[name][frames[frames < len(features[name])]]
  return fitted
