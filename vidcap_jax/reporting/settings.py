"""What a report shows and where it is written."""

import dataclasses

FOLDER = 'report'  # in the folder of the results
ATTENTION = 200  # videos


@dataclasses.dataclass(frozen=True)
class Options:
  """What a report shows.

  Attributes:
    data: the data set; None: the one that was evaluated.
    videos: a folder of video files, pictures or frames; None for no pictures.
    frame_rate: of videos whose frames are pictures.
    attention: the most videos with attention.
    compare: another run, or its folder of results.
    output: the folder; None: ``FOLDER`` in that of the results.
    boxes: the stream with the boxes of regions; None: one that a detector's extractor made.
  """

  data: str | None = None
  videos: str | None = None
  frame_rate: str | None = None
  attention: int = ATTENTION
  compare: str | None = None
  output: str | None = None
  boxes: str | None = None
