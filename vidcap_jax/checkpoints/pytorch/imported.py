"""What an import needs to know of a checkpoint of another project, whichever project it is."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from vidcap_jax.checkpoints.pytorch.tables import Table
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import Vocabulary


@dataclasses.dataclass(frozen=True)
class Places:
  """Streams that features are read from, and the form of those that are attended to.

  Attributes:
    mean: stream of the mean feature, a vector; the name of the other one for the mean over it.
    attended: stream that is attended to.
    regions: most regions of an image.
    grid: rows and columns of its cells, (0, 0) for regions.
  """

  mean: str = 'fc'
  attended: str = 'att'
  regions: int = 100
  grid: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class Imported:
  """A checkpoint's settings in the terms of this project.

  Attributes:
    model: the section ``model`` of a config.
    streams: that the model reads.
    layouts: of the streams' files, as the build option of that name.
    vocabulary: its words.
    decode: changes to the section ``decode``.
    max_words: longest caption without its end.
    table: how its parameters are mapped.
    step: updates that it was trained for.
    notes: what captions depend on and is not imported, a line each.
  """

  model: Mapping[str, Any]
  streams: tuple[Stream, ...]
  layouts: Mapping[str, str]
  vocabulary: Vocabulary
  decode: Mapping[str, Any]
  max_words: int
  table: Table
  step: int = 0
  notes: tuple[str, ...] = ()
