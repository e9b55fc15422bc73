"""A split whose videos have swapped their features: a captioner that reads them scores less."""

from collections.abc import Sequence

import numpy as np

from vidcap_jax.data.records import Subset, VideoSource
from vidcap_jax.errors import UserError


def swap_features(source: VideoSource, seed: int = 0) -> Subset:
  """The split with another video in each place: its features, category and key frame."""
  return Subset(source, partners(len(source), seed))


def partners(count: int, seed: int = 0) -> Sequence[int]:
  """For each video the index of another one, along a random cycle through all videos.

  Raises:
    UserError: there are fewer than two videos.
  """
  if count < 2:
    raise UserError(f'swapping features needs at least 2 videos; the split has {count}')
  cycle = np.random.default_rng(seed).permutation(count)
  partner = np.empty(count, int)
  partner[cycle] = np.roll(cycle, 1)
  return partner.tolist()
