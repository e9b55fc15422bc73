"""Mean and variance per channel over any number of videos, in one pass and bounded memory."""

import dataclasses

import numpy as np

from vidcap_jax.data.schema import Stream


@dataclasses.dataclass
class Moments:
  """Running count, mean and sum of squared deviations per channel (D,), in float64.

  Parts are merged by Chan's formula (Chan, Golub, LeVeque 1979), which loses no digits where the
  mean is large compared to the deviation.
  """

  count: int
  mean: np.ndarray
  deviation: np.ndarray

  @classmethod
  def zeros(cls, channels: int) -> 'Moments':
    return cls(0, np.zeros(channels), np.zeros(channels))

  @classmethod
  def from_array(cls, array: np.ndarray, stream: Stream) -> 'Moments':
    """The moments of one video's valid entries; all-zero rows of regions are padding."""
    rows = array.reshape(-1, stream.channels).astype(np.float64)  # (T N, D)
    if stream.kind == 'regions':
      rows = rows[rows.any(axis=1)]
    if not len(rows):
      return cls.zeros(stream.channels)
    mean = rows.mean(axis=0)
    return cls(len(rows), mean, np.square(rows - mean).sum(axis=0))

  def merge(self, other: 'Moments') -> 'Moments':
    """The moments of both parts together."""
    if not other.count or not self.count:
      return self if self.count else other
    count = self.count + other.count
    shift = other.mean - self.mean
    return Moments(
      count,
      self.mean + shift * (other.count / count),
      self.deviation + other.deviation + shift**2 * (self.count * other.count / count),
    )

  @property
  def std(self) -> np.ndarray:
    """Standard deviation (of the population) per channel (D,)."""
    return np.sqrt(self.deviation / max(1, self.count))

  def to_dict(self) -> dict:
    return {
      'count': self.count,
      'mean': self.mean.tolist(),
      'deviation': self.deviation.tolist(),
    }

  @classmethod
  def from_dict(cls, data) -> 'Moments':
    return cls(data['count'], np.array(data['mean']), np.array(data['deviation']))
