"""Feature streams of a data set: reads features from files into the form of its records."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vidcap_jax.data.records import absent
from vidcap_jax.data.schema import Stream
from vidcap_jax.features.formats import FeatureReader, lengths
from vidcap_jax.features.formats.check import load
from vidcap_jax.features.formats.layout import Layout

# Called with a stream's name, how many values of a video are not 0, and how many of those become 0
# in the dtype of storage.
CountUnderflow = Callable[[str, int, int], object]


@dataclasses.dataclass(frozen=True)
class Source:
  """One stream, the files of its features, and how they are stored.

  Attributes:
    stream: as stored in the data set.
    reader: of the files.
    names: video id -> name of its features.
    layout: of the arrays in the files.
    max_frames, max_regions: limits for one video; None: no limit.
    block: frames in one unit of the clock that all streams with a block share; None: no clock.
  """

  stream: Stream
  reader: FeatureReader
  names: Mapping[str, str]
  layout: Layout
  max_frames: int | None = None
  max_regions: int | None = None
  block: int | None = None

  @property
  def unused(self) -> list[str]:
    """Names of features that belong to no video."""
    used = set(self.names.values())
    return [name for name in self.reader.ids if name not in used]

  def load(self, video_id: str, count_underflow: CountUnderflow | None = None) -> np.ndarray:
    """A video's array, checked; T = 0 if it has no features."""
    name = self.names.get(video_id)
    if name is None:
      return absent(self.stream)
    count = functools.partial(count_underflow, self.stream.name) if count_underflow else None
    return load(self.reader, name, self.stream, self.layout, self.max_regions, count)


def read_features(
  video_id: str,
  sources: Sequence[Source],
  align: Mapping[str, str],
  count_underflow: CountUnderflow | None = None,
) -> dict[str, np.ndarray]:
  """Reads a video's arrays (T, …) by stream, checked, aligned and limited in length.

  Args:
    sources: of all streams.
    align: streams of equal length, see ``lengths.align``.
    count_underflow: called for each array, see ``CountUnderflow``.

  Raises:
    DataError: a file can't be used; names it.
  """
  features = {source.stream.name: source.load(video_id, count_underflow) for source in sources}
  max_frames = {s.stream.name: s.max_frames for s in sources if s.max_frames is not None}
  blocks = {s.stream.name: s.block for s in sources if s.block is not None}
  return lengths.select_frames(features, align, max_frames, blocks)
