"""The training split of a stage: its captions, and which of them are in which batch."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.counts import counted
from vidcap_jax.data.key_frames import attach, lacking
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.records import Video, VideoSource, open_split
from vidcap_jax.data.texts import read_texts
from vidcap_jax.data.vocabulary import PAD, Vocabulary
from vidcap_jax.training import key_frame_stage
from vidcap_jax.training.programs import step_lengths
from vidcap_jax.training.stage import Stage


@dataclasses.dataclass(frozen=True)
class TrainData:
  """The training split.

  Attributes:
    source: the split, with the key frames that come from outside.
    texts: its videos without their features.
    order: of videos and captions in batches.
    length: L, tokens of a caption with its EOS.
    total_steps: of the stage.
    tokens_per_step: what a batch's sum over words is divided by; None: its own number of words.
    key_frames: video id -> key frame from outside; {} without any.
  """

  source: VideoSource
  texts: Sequence[Video]
  order: TrainOrder
  length: int
  total_steps: int
  tokens_per_step: float | None
  key_frames: dict[str, int]

  @property
  def ids(self) -> list[str]:
    """Video ids, in the order of the split."""
    return [video.video_id for video in self.texts]

  @property
  def captions(self) -> list[Sequence[str]]:
    """The captions of each video."""
    return [video.captions for video in self.texts]


def read_train_data(config: ConfigDict, stage: Stage, workdir: epath.Path) -> TrainData:
  """Reads the captions of the training split, and its key frames where they come from outside.

  Raises:
    ConfigError, DataError: the data set and the config don't fit together.
  """
  key_frames = key_frame_stage.read_key_frames(config, stage.module.config.needs, workdir)
  source = attach(open_split(config.data.dir, config.data.train_split), key_frames)
  texts = read_texts(source, config.data.threads)
  lengths = None
  if config.data.length_buckets:
    lengths = _caption_lengths(texts, stage.vocabulary, stage.shape.length)
  order = TrainOrder(
    np.array([len(video.captions) for video in texts]),
    config.train.batch_size,
    config.data.captions_per_video,
    config.seed,
    lengths,
  )
  # Grouped by length, batches hold very different numbers of words. Dividing each by its own would
  # give the words of short captions more weight, so all are divided by the mean number.
  tokens_per_step = None if lengths is None else float(lengths.sum() / order.steps_per_epoch)
  total_steps = max(1, round(config.train.epochs * order.steps_per_epoch))
  length = stage.shape.length
  return TrainData(source, texts, order, length, total_steps, tokens_per_step, key_frames)


def _caption_lengths(texts: Sequence[Video], vocabulary: Vocabulary, length: int) -> np.ndarray:
  """Tokens of every caption of a split, EOS included, video after video."""
  captions = (caption for video in texts for caption in video.captions)
  return np.array([(vocabulary.encode(c, length) != PAD).sum() for c in captions])


def lengths_to_come(config: ConfigDict, data: TrainData, steps: range) -> list[int]:
  """The numbers of tokens that the batches of steps are cut to, in the order of their first use.

  Only these need a program: a bucket may have no batch, as at the end of a run that is resumed.
  """
  lengths = np.array(step_lengths(config, data.length))
  if len(lengths) == 1:
    return lengths.tolist()
  found: dict[int, None] = {}
  for first in range(steps.start, steps.stop, data.order.steps_per_epoch):
    epoch = range(first, min(steps.stop, first + data.order.steps_per_epoch))
    needed = lengths[np.searchsorted(lengths, data.order.longest_of_steps(epoch))]
    found |= dict.fromkeys(needed.tolist())
    if len(found) == len(lengths):
      break
  return list(found)


def log_train_data(
  config: ConfigDict, stage: Stage, data: TrainData, mesh: Mesh, log: Callable[[str], None]
) -> None:
  """Logs what is trained on: videos, captions, streams, and rows that stay empty."""
  order, streams = data.order, stage.shape.streams
  if data.key_frames:
    log(f'key frames of {config.data.key_frames}: {lacking(data.key_frames, data.ids)}')
  without = f'; {counted(order.without_captions, "video")} without captions'
  log(
    f'{counted(order.videos - order.without_captions, "video")}, '
    f'{counted(int(order.caption_counts.sum()), "caption")}, '
    f'vocabulary {len(stage.vocabulary)}; {counted(order.steps_per_epoch, "step")} an epoch, '
    f'{data.total_steps} in all' + (without if order.without_captions else '')
  )
  if stage.vocabulary.leak_note:
    log(f'warning: {stage.vocabulary.leak_note}')
  unread = [stream.name for stream in stage.manifest.streams if stream not in streams]
  log(
    f'streams: {", ".join(stream.name for stream in streams)}'
    + (f"; this model does not read the data set's {', '.join(unread)}" if unread else '')
  )
  empty = config.train.batch_size - order.videos
  if empty >= mesh.shape['data']:  # fewer may be needed to divide over the devices
    log(
      f'train.batch_size={config.train.batch_size} is more than there are videos, which leaves '
      f'{counted(empty, "row")} of every batch empty; {config.train.batch_size - empty} is enough'
    )
