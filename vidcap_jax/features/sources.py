"""Features as files hold them, brought into the form in which a data set stores them."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from vidcap_jax.data.records import absent
from vidcap_jax.data.schema import Stream
from vidcap_jax.features.formats import FeatureReader, lengths
from vidcap_jax.features.formats.check import load
from vidcap_jax.features.formats.layout import Layout


@dataclasses.dataclass(frozen=True)
class Source:
  """One stream, where its features come from and how they are brought into form.

  Attributes:
    stream: as it is stored.
    reader: of the features.
    names: video id -> name of its features.
    layout: of the arrays as found.
    max_frames, max_regions: how much is kept of one video, None for all.
    block: frames in one unit of the clock that streams with a block share; None: on no clock.
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

  def load(self, video_id: str) -> np.ndarray:
    """A video's array, checked; T = 0 if it has none."""
    name = self.names.get(video_id)
    if name is None:
      return absent(self.stream)
    return load(self.reader, name, self.stream, self.layout, self.max_regions)


def read_features(
  video_id: str, sources: Sequence[Source], align: Mapping[str, str]
) -> dict[str, np.ndarray]:
  """A video's arrays (T, …) by stream: read, checked, aligned and cut.

  Args:
    sources: of all streams.
    align: streams of equal length, see ``lengths.align``.

  Raises:
    DataError: names the file that can't be used.
  """
  features = {source.stream.name: source.load(video_id) for source in sources}
  max_frames = {s.stream.name: s.max_frames for s in sources if s.max_frames is not None}
  blocks = {s.stream.name: s.block for s in sources if s.block is not None}
  return lengths.keep(features, align, max_frames, blocks)
