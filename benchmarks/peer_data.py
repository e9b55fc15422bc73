"""Batches of a data set in the form that ImageCaptioning.pytorch's models read.

``benchmarks.peer_training`` trains on them. That project's own loader reads the same arrays from a
file for each picture.
"""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from vidcap_jax.data.records import Video, VideoSource
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.data.vocabulary import UNK, Vocabulary
from vidcap_jax.errors import DataError

CAPTIONS = 5  # of each picture in a step


@dataclasses.dataclass(frozen=True)
class Batch:
  """What the peer's models read; B pictures with S captions each.

  Attributes:
    means: (B, D) float32, the mean of a stream's entries.
    entries: (B, N, D') float32, the frames or cells of a stream.
    entry_masks: (B, N) float32; None if all pictures have N entries.
    labels: (B, S, L + 2) int64, see ``to_labels``.
    label_masks: (B, S, L + 2) float32.
  """

  means: np.ndarray
  entries: np.ndarray
  entry_masks: np.ndarray | None
  labels: np.ndarray
  label_masks: np.ndarray


def peer_words(vocabulary: Vocabulary) -> dict[str, str]:
  """The peer's vocabulary: id -> word from '1' on, without special words, and at last 'UNK'."""
  words = (*vocabulary.words[UNK + 1 :], 'UNK')
  return {str(i): word for i, word in enumerate(words, start=1)}


def to_labels(
  vocabulary: Vocabulary, captions: Sequence[str], most_words: int
) -> tuple[np.ndarray, np.ndarray]:
  """Captions as the peer reads them: 0 begins and ends a caption, and pads.

  Returns:
    Labels (S, most_words + 2) int64, and masks of the same shape: 1 up to the end of a caption.
  """
  tokens = np.stack([vocabulary.encode(caption, most_words + 1) for caption in captions])
  ids = np.where(tokens > UNK, tokens - UNK, np.where(tokens == UNK, len(vocabulary) - UNK, 0))
  labels = np.pad(ids, ((0, 0), (1, 0))).astype(np.int64)
  words = (labels != 0).sum(axis=1, keepdims=True)
  return labels, (np.arange(labels.shape[1]) < words + 2).astype(np.float32)


class Reader:
  """Reads batches of a data set.

  Args:
    manifest: of the data set.
    mean_stream: the stream whose mean is read.
    entry_stream: the stream whose frames or cells are read.
    most_words: longer captions are cut.
    standardise: whether features are standardised as for our models.

  Raises:
    DataError: no such stream, or one with regions, whose padding the peer has no masks for; or the
      data set has no vocabulary.
  """

  def __init__(
    self,
    manifest: Manifest,
    mean_stream: str,
    entry_stream: str,
    most_words: int,
    standardise: bool,
  ):
    streams = {stream.name: stream for stream in manifest.streams}
    for flag, name in (('mean_stream', mean_stream), ('entry_stream', entry_stream)):
      if name not in streams or streams[name].kind == 'regions':
        known = ', '.join(f'{s.name} ({s.kind})' for s in manifest.streams)
        raise DataError(f'--{flag}={name}: no stream of vectors, frames or cells; it has: {known}')
    self.means, self.entries = streams[mean_stream], streams[entry_stream]
    if manifest.vocabulary is None:
      raise DataError(f'data set {manifest.name}: has no vocabulary, so nothing to train on')
    self.vocabulary = Vocabulary.from_dict(manifest.vocabulary)
    self.most_words, self.standardise = most_words, standardise

  def batch(self, videos: Sequence[Video], generator: np.random.Generator | None = None) -> Batch:
    """A batch of videos; ``generator`` draws their captions, the first ones are taken without."""
    entries = [self._features(video, self.entries) for video in videos]
    counts = np.array([len(each) for each in entries])
    padded = np.zeros((len(videos), counts.max(), self.entries.channels), np.float32)
    for row, each in zip(padded, entries, strict=True):
      row[: len(each)] = each
    masks = (np.arange(counts.max()) < counts[:, None]).astype(np.float32)
    captions = [_choose(video.captions, generator) for video in videos]
    labels = [to_labels(self.vocabulary, texts, self.most_words) for texts in captions]
    return Batch(
      np.stack([self._features(video, self.means).mean(axis=0) for video in videos]),
      padded,
      None if masks.all() else masks,
      np.stack([ids for ids, _ in labels]),
      np.stack([mask for _, mask in labels]),
    )

  def _features(self, video: Video, stream: Stream) -> np.ndarray:
    x = video.features[stream.name].reshape(-1, stream.channels).astype(np.float32)
    if not len(x):
      raise DataError(f'{video.video_id}: has no features of stream {stream.name!r}')
    if self.standardise:
      std = np.asarray(stream.std, np.float32)
      varies = std > 1e-6 * (1 + np.abs(stream.mean))
      x = np.where(varies, (x - np.float32(stream.mean)) / np.where(varies, std, 1), 0)
    return x


def _choose(captions: Sequence[str], generator: np.random.Generator | None) -> list[str]:
  """``CAPTIONS`` of a video's captions, some of them twice if it has fewer."""
  if generator is None:
    return [captions[i % len(captions)] for i in range(CAPTIONS)]
  chosen = generator.choice(len(captions), CAPTIONS, replace=len(captions) < CAPTIONS)
  return [captions[i] for i in chosen]


def training_batches(
  reader: Reader, source: VideoSource, batch_size: int, seed: int
) -> Iterator[Batch]:
  """An epoch: every picture once, in an order that ``seed`` draws."""
  generator = np.random.default_rng(seed)
  order = generator.permutation(len(source))
  for start in range(0, len(order), batch_size):
    videos = [source[int(i)] for i in order[start : start + batch_size]]
    yield reader.batch(videos, generator)
