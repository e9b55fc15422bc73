"""Which video and which of its captions stand in row r of step s: arithmetic, no state, no files.

Training goes in rounds. A round visits every video that still has unused captions once, with S of
them; its last batch is filled up with empty rows, so no batch holds a video twice. An epoch is as
many rounds as it takes to use every caption once. All of it is a function of (seed, step) and
knows nothing of hosts, threads or devices: a run resumed at any step, on any number of hosts,
sees the rows that an uninterrupted one sees.

A batch is as long as its longest caption, and among 64 captions one is nearly always long. So the
lengths of captions may be given: then a round takes each video's shortest captions, another its
next longer ones, and so on, in an order of rounds drawn for every epoch. Most rounds are short.
"""

import functools

import numpy as np

from vidcap_jax.data.schema import DataError

# Purposes of the random streams below, so that no two of them share numbers.
_VIDEOS, _CAPTIONS, _ROUNDS = 0, 1, 2


def _random_keys(seed: int, purpose: tuple[int, ...], count: int) -> np.ndarray:
  """`count` random uint64, to sort by. Raw generator output: numpy keeps it the same for ever."""
  sequence = np.random.SeedSequence(seed, spawn_key=purpose)
  return np.random.PCG64(sequence).random_raw(count)


class TrainOrder:
  """The order of a training split.

  Attributes:
    videos: number of videos in the split.
    without_captions: how many of them are never visited, because they have no caption.
    batch_size: B, rows of a global batch.
    captions_per_video: S, captions of a video in one step.
    rounds: rounds of an epoch.
    steps_per_epoch: steps of an epoch.
    seed: of all permutations.

  Example:
    >>> order = TrainOrder(np.array([3, 1, 2]), batch_size=2, captions_per_video=2, seed=0)
    >>> order.rounds, order.steps_per_epoch  # (3 videos, 1 video) in batches of 2
    (2, 3)
  """

  def __init__(
    self,
    caption_counts: np.ndarray,
    batch_size: int,
    captions_per_video: int,
    seed: int,
    lengths: np.ndarray | None = None,
  ):
    """Makes the order for videos with so many captions each.

    Args:
      caption_counts: (videos,).
      batch_size, captions_per_video, seed: see the attributes.
      lengths: tokens of every caption, video after video (their sum of counts,); captions are
        then grouped by length. None draws them in any order.

    Raises:
      DataError: no video has a caption, or a size is below 1, or the seed is negative.
    """
    counts = np.asarray(caption_counts, np.int64)
    for name, value in (('batch size', batch_size), ('captions per video', captions_per_video)):
      if value < 1:
        raise DataError(f'{name} must be at least 1, got {value}')
    if seed < 0:
      raise DataError(f'the seed must not be negative, got {seed}')
    if not counts.any():
      raise DataError(
        f'none of the {len(counts)} videos of this split has a caption, and training needs them; '
        'train on another split or rebuild the data set with annotations'
      )
    self.caption_counts = counts
    self.videos = len(counts)
    self.without_captions = int((counts == 0).sum())
    self.batch_size = batch_size
    self.captions_per_video = captions_per_video
    self.seed = seed
    self.lengths = None if lengths is None else np.asarray(lengths, np.int64)
    self.rounds = int(-(-counts.max() // captions_per_video))
    visits = -(-counts // captions_per_video)  # rounds that a video takes part in
    round_videos = np.array([(visits > k).sum() for k in range(self.rounds)])
    self._round_steps = -(-round_videos // batch_size)
    self.steps_per_epoch = int(self._round_steps.sum())
    self._offsets = np.cumsum(counts) - counts
    # Two of each: threads that read ahead are in the next round while others finish the last.
    self._round_videos = functools.lru_cache(2)(self._permuted_videos)
    self._caption_keys = functools.lru_cache(2)(self._epoch_keys)
    self._rounds = functools.lru_cache(2)(self._epoch_rounds)

  def __reduce__(self):
    sizes = (self.batch_size, self.captions_per_video)
    return TrainOrder, (self.caption_counts, *sizes, self.seed, self.lengths)

  def _permuted_videos(self, epoch: int, number: int) -> np.ndarray:
    """The videos of a round, in the order in which it visits them."""
    active = np.flatnonzero(self.caption_counts > number * self.captions_per_video)
    keys = _random_keys(self.seed, (_VIDEOS, epoch, number), len(active))
    return active[np.argsort(keys, kind='stable')]

  def _epoch_keys(self, epoch: int) -> np.ndarray:
    """A key for every caption of the split; a video's captions are permuted by theirs."""
    return _random_keys(self.seed, (_CAPTIONS, epoch), int(self.caption_counts.sum()))

  def _epoch_rounds(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
    """The rounds of an epoch in the order they run, and the step at which each is over."""
    order = np.arange(self.rounds)
    if self.lengths is not None:
      order = np.argsort(_random_keys(self.seed, (_ROUNDS, epoch), self.rounds), kind='stable')
    return order, np.cumsum(self._round_steps[order])

  def locate(self, step: int) -> tuple[int, int, int]:
    """Epoch, round of the epoch and step of the round of a global step, all from 0."""
    epoch, step = divmod(step, self.steps_per_epoch)
    order, over = self._rounds(epoch)
    at = int(np.searchsorted(over, step, side='right'))
    return epoch, int(order[at]), step - (int(over[at - 1]) if at else 0)

  def longest(self, step: int) -> int:
    """Tokens of the longest caption in the global batch of a step; needs ``lengths``."""
    epoch, number, batch = self.locate(step)
    videos = self._round_videos(epoch, number)
    rows = videos[batch * self.batch_size : (batch + 1) * self.batch_size]
    last = np.minimum(self.caption_counts[rows], (number + 1) * self.captions_per_video) - 1
    # Sorted by length, a video's last caption of the round is its longest.
    tokens = [self._sorted_lengths(video)[i] for video, i in zip(rows, last)]
    return int(max(tokens))

  def _sorted_lengths(self, video: int) -> np.ndarray:
    assert self.lengths is not None, 'made without lengths'
    start, count = self._offsets[video], self.caption_counts[video]
    return np.sort(self.lengths[start : start + count])

  def row(self, step: int, r: int) -> tuple[int, np.ndarray]:
    """What stands in row r (0 <= r < B) of the global batch of a step (from 0).

    Returns:
      The video's index, -1 for an empty row; and int32 (S,), which of its captions, -1 where a
      slot is unused.
    """
    captions = np.full(self.captions_per_video, -1, np.int32)
    epoch, number, batch = self.locate(step)
    videos = self._round_videos(epoch, number)
    position = batch * self.batch_size + r
    if position >= len(videos):
      return -1, captions
    video = int(videos[position])
    start, count = self._offsets[video], self.caption_counts[video]
    keys = self._caption_keys(epoch)[start : start + count]
    permuted = np.argsort(keys, kind='stable')
    if self.lengths is not None:  # by length, equal ones in the drawn order
      sizes = self.lengths[start : start + count][permuted]
      permuted = permuted[np.argsort(sizes, kind='stable')]
    first = number * self.captions_per_video
    chosen = permuted[first : first + self.captions_per_video]
    captions[: len(chosen)] = chosen
    return video, captions


class EvalOrder:
  """Every video of a split once, as stored, with its first S captions.

  Attributes:
    videos, batch_size, captions_per_video: as in TrainOrder.
    steps: batches that it takes; the last is filled up with empty rows.
  """

  def __init__(self, videos: int, batch_size: int, captions_per_video: int):
    if batch_size < 1:
      raise DataError(f'batch size must be at least 1, got {batch_size}')
    self.videos = videos
    self.batch_size = batch_size
    self.captions_per_video = captions_per_video
    self.steps = -(-videos // batch_size)

  def row(self, step: int, r: int) -> tuple[int, None]:
    """The video in row r of a step, -1 for an empty row; None stands for its first S captions."""
    video = step * self.batch_size + r
    return (video if video < self.videos else -1), None
