"""Key frames that another model chose: their file, and videos with them attached.

The file is JSON: {"checkpoint": path of the model that chose them, "max_frames": the limit under
which frames were counted, "splits": {split: {video id: frame}}}.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping

from etils import epath

from vidcap_jax.data.records import Video, VideoSource
from vidcap_jax.errors import DataError
from vidcap_jax.files import write_json


def save(
  path: epath.Path, splits: Mapping[str, Mapping[str, int]], checkpoint: str, max_frames: int
) -> None:
  """Writes a file of key frames by split and video id."""
  path.parent.mkdir(parents=True, exist_ok=True)
  write_json(path, {'checkpoint': checkpoint, 'max_frames': max_frames, 'splits': splits})


def load(path: epath.Path, max_frames: int) -> dict[str, int]:
  """Reads a file of key frames: video id -> key frame, for all splits.

  Raises:
    DataError: no such file, or its frames were counted under another ``max_frames``.
  """
  if not path.is_file():
    raise DataError(f"{path}: no such file; a stage with task 'key_frames' writes one")
  saved = json.loads(path.read_text())
  if saved['max_frames'] != max_frames:
    raise DataError(
      f'{path}: frames were counted with data.max_frames {saved["max_frames"]}, now it is '
      f'{max_frames}; set the same value, or run the stage that chooses key frames again'
    )
  return {video: frame for split in saved['splits'].values() for video, frame in split.items()}


@dataclasses.dataclass(frozen=True)
class WithKeyFrames:
  """The videos of a source, with key frames from a table; see ``attach``."""

  source: VideoSource
  table: Mapping[str, int]

  def __len__(self) -> int:
    return len(self.source)

  def __getitem__(self, index: int) -> Video:
    video = self.source[index]
    return dataclasses.replace(video, key_frame=self.table.get(video.video_id, -1))


def attach(source: VideoSource, table: Mapping[str, int]) -> VideoSource:
  """The same videos with their key frames, -1 for those that the table lacks."""
  return WithKeyFrames(source, table) if table else source


def lacking(table: Mapping[str, int], ids: Iterable[str]) -> str:
  """A line for the log: how many of the videos the table lacks."""
  missing = [video not in table for video in ids]
  if not any(missing):
    return f'all {len(missing)} videos have a saved key frame'
  return f"{sum(missing)} of {len(missing)} videos have no saved key frame: the model's own is used"
