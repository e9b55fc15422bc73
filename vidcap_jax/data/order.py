"""Computes which video and which of its captions are in row r of step s, without state or files.

Training is divided into rounds. A round visits every video that still has unused captions once,
with S of them; its last batch is padded with empty rows, so no batch holds a video twice. An epoch
is as many rounds as it takes to use every caption once. The order is a function of (seed, step)
only, not of hosts, threads or devices: a run that is resumed at any step, on any number of hosts,
reads the rows that an uninterrupted one reads.

A batch is as long as its longest caption, and of 64 captions one is nearly always long. If the
lengths of captions are given, batches are therefore grouped by length. A video's captions are split
into turns of S captions of increasing length; each video starts an epoch at a random turn; and
videos whose turns have about the same length form a batch. The batches of a round are shuffled, so
that long and short ones alternate.
"""

import functools

import numpy as np

from vidcap_jax.errors import DataError

# What each random stream below is for; the streams are independent.
_VIDEOS, _CAPTIONS, _PLACES, _BATCHES = 0, 1, 2, 3


def _random_keys(seed: int, purpose: tuple[int, ...], count: int) -> np.ndarray:
  """`count` random uint64 to sort by: raw output of the generator, which numpy never changes."""
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
    """Makes the order of a split.

    Args:
      caption_counts: (videos,), the number of captions of each video.
      batch_size, captions_per_video, seed: see the attributes.
      lengths: the tokens of every caption, video after video (sum of caption_counts,), to group
        batches by length; None for no grouping.

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
    self._visits = -(-counts // captions_per_video)  # rounds that a video takes part in
    round_videos = np.array([(self._visits > k).sum() for k in range(self.rounds)])
    self._round_steps = -(-round_videos // batch_size)
    self._last_steps = np.cumsum(self._round_steps)  # step at which each round is over
    self.steps_per_epoch = int(self._last_steps[-1])
    self._offsets = np.cumsum(counts) - counts
    # Two of each are cached: threads that read ahead may be in the next round.
    self._round_videos = functools.lru_cache(2)(self._permuted_videos)
    self._caption_keys = functools.lru_cache(2)(self._epoch_keys)
    self._places = functools.lru_cache(2)(self._epoch_places)
    self._longest = None if self.lengths is None else self._longest_of_turns(self.lengths)

  def __reduce__(self):
    sizes = (self.batch_size, self.captions_per_video)
    return TrainOrder, (self.caption_counts, *sizes, self.seed, self.lengths)

  def _permuted_videos(self, epoch: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The videos of a round, batch after batch, and the order in which its batches are used."""
    active = np.flatnonzero(self._visits > number)
    keys = _random_keys(self.seed, (_VIDEOS, epoch, number), len(active))
    steps = np.arange(self._round_steps[number])
    videos = active[np.argsort(keys, kind='stable')]
    if self._longest is None:
      return videos, steps
    tokens = self._longest[videos, self._turn(epoch, number, videos)]
    videos = videos[np.argsort(tokens, kind='stable')]
    keys = _random_keys(self.seed, (_BATCHES, epoch, number), len(steps))
    return videos, steps[np.argsort(keys, kind='stable')]

  def _epoch_places(self, epoch: int) -> np.ndarray:
    """The turn at which each video starts an epoch, (videos,)."""
    keys = _random_keys(self.seed, (_PLACES, epoch), self.videos)
    return (keys % np.maximum(self._visits, 1).astype(np.uint64)).astype(np.int64)

  def _turn(self, epoch: int, number: int, videos):
    """The turn of each video in a round; turns are numbered from the shortest captions up."""
    if self._longest is None:
      return number
    return (number + self._places(epoch)[videos]) % self._visits[videos]

  def _longest_of_turns(self, lengths: np.ndarray) -> np.ndarray:
    """Tokens of the longest caption of each turn of each video, (videos, rounds); 0 for no turn."""
    S = self.captions_per_video
    longest = np.zeros((self.videos, self.rounds), np.int64)
    for video, (start, count) in enumerate(zip(self._offsets, self.caption_counts)):
      ordered = np.sort(lengths[start : start + count])
      for turn in range(self._visits[video]):
        longest[video, turn] = ordered[min(count, (turn + 1) * S) - 1]
    return longest

  def _epoch_keys(self, epoch: int) -> np.ndarray:
    """A random key for every caption of the split, by which a video's captions are permuted."""
    return _random_keys(self.seed, (_CAPTIONS, epoch), int(self.caption_counts.sum()))

  def locate(self, step: int) -> tuple[int, int, int]:
    """A global step's epoch, round in that epoch and step in that round, all from 0."""
    epoch, step = divmod(step, self.steps_per_epoch)
    number = int(np.searchsorted(self._last_steps, step, side='right'))
    return epoch, number, step - (int(self._last_steps[number - 1]) if number else 0)

  def _batch(self, epoch: int, number: int, step: int) -> np.ndarray:
    """The videos of a step of a round, B or, in one batch of the round, fewer."""
    videos, batches = self._round_videos(epoch, number)
    first = int(batches[step]) * self.batch_size
    return videos[first : first + self.batch_size]

  def longest(self, step: int) -> int:
    """Tokens of the longest caption in the global batch of a step; needs ``lengths``."""
    assert self._longest is not None, 'made without lengths'
    epoch, number, step = self.locate(step)
    videos = self._batch(epoch, number, step)
    return int(self._longest[videos, self._turn(epoch, number, videos)].max())

  def longest_of_steps(self, steps: range) -> np.ndarray:
    """``longest`` of each step of a range, (len(steps),), a round at a time, which is faster."""
    assert self._longest is not None, 'made without lengths'
    found, step = [np.zeros(0, np.int64)], steps.start
    while step < steps.stop:
      epoch, number, first = self.locate(step)
      # Not from the cache, which holds the rounds that are being read.
      videos, batches = self._permuted_videos(epoch, number)
      tokens = self._longest[videos, self._turn(epoch, number, videos)]  # ascending
      last = np.minimum((batches + 1) * self.batch_size, len(videos)) - 1  # video of each batch
      found.append(tokens[last][first:])
      step += len(found[-1])
    return np.concatenate(found)[: len(steps)]

  def row(self, step: int, r: int) -> tuple[int, np.ndarray]:
    """Row r (0 <= r < B) of the global batch of a step (from 0).

    Returns:
      The video's index, -1 for an empty row; and its captions' indices, int32 (S,), -1 for unused
      slots.
    """
    captions = np.full(self.captions_per_video, -1, np.int32)
    epoch, number, step = self.locate(step)
    videos = self._batch(epoch, number, step)
    if r >= len(videos):
      return -1, captions
    video = int(videos[r])
    start, count = self._offsets[video], self.caption_counts[video]
    keys = self._caption_keys(epoch)[start : start + count]
    permuted = np.argsort(keys, kind='stable')
    if self.lengths is not None:  # by length, captions of equal length in random order
      sizes = self.lengths[start : start + count][permuted]
      permuted = permuted[np.argsort(sizes, kind='stable')]
    first = int(self._turn(epoch, number, video)) * self.captions_per_video
    chosen = permuted[first : first + self.captions_per_video]
    captions[: len(chosen)] = chosen
    return video, captions


class EvalOrder:
  """Every video of a split once, in stored order, with its first S captions.

  Attributes:
    videos, batch_size, captions_per_video: as in TrainOrder.
    steps: the number of batches; the last one is padded with empty rows.
  """

  def __init__(self, videos: int, batch_size: int, captions_per_video: int):
    if batch_size < 1:
      raise DataError(f'batch size must be at least 1, got {batch_size}')
    self.videos = videos
    self.batch_size = batch_size
    self.captions_per_video = captions_per_video
    self.steps = -(-videos // batch_size)

  def row(self, step: int, r: int) -> tuple[int, None]:
    """The video in row r of a step, -1 for an empty row; and None, for its first S captions."""
    video = step * self.batch_size + r
    return (video if video < self.videos else -1), None
