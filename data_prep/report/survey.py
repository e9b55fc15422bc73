"""Reads every record of a data set once and collects its contents and what is odd about them."""

import collections
import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from vidcap_jax.data.batch import subsample
from vidcap_jax.data.records import SplitSource, Video, check_shard
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.data.tokenizers import tokenize
from vidcap_jax.data.vocabulary import UNK, Vocabulary
from vidcap_jax.errors import DataError


@dataclasses.dataclass
class StreamSurvey:
  """A stream in one split. Lists of ids are in the order of the split.

  Attributes:
    frames: T of each video that has the stream, by id.
    lacking: videos without the stream.
    not_finite: videos with NaN or infinite values.
    constant: videos whose values are all equal.
    repeated_frames: id -> (frames equal to an earlier frame of the video, frames).
    digests: hash of the features -> videos that have these features.
    lowest, highest: of all finite values.
  """

  frames: dict[str, int] = dataclasses.field(default_factory=dict)
  lacking: list[str] = dataclasses.field(default_factory=list)
  not_finite: list[str] = dataclasses.field(default_factory=list)
  constant: list[str] = dataclasses.field(default_factory=list)
  repeated_frames: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
  digests: dict[bytes, list[str]] = dataclasses.field(
    default_factory=lambda: collections.defaultdict(list)
  )
  lowest: float = np.inf
  highest: float = -np.inf


@dataclasses.dataclass(frozen=True)
class Sample:
  """A video to show: its captions, its category, and its number of frames by stream."""

  video_id: str
  captions: Sequence[str]
  category: int
  frames: Mapping[str, int]


@dataclasses.dataclass
class SplitSurvey:
  """The contents of one split.

  Attributes:
    videos: number of records.
    words: number of words of every caption.
    captions: number of captions of each video, by id.
    repeated_captions: captions that repeat another one of their video.
    counts: how often each word occurs, including words after max_words.
    known: (known, all) words, among the first max_words of each caption.
    streams: by name.
    samples: some evenly spaced videos.
  """

  videos: int = 0
  words: list[int] = dataclasses.field(default_factory=list)
  captions: dict[str, int] = dataclasses.field(default_factory=dict)
  repeated_captions: int = 0
  counts: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
  known: tuple[int, int] = (0, 0)
  streams: dict[str, StreamSurvey] = dataclasses.field(default_factory=dict)
  samples: list[Sample] = dataclasses.field(default_factory=list)


def broken_shards(
  directory,
  manifest: Manifest,
  *,
  checksums: bool,
  each: Callable[[Sequence], Iterable] = iter,
) -> dict[str, list[str]]:
  """Compares all shard files with the manifest.

  Args:
    directory: the data set folder.
    manifest: its manifest.
    checksums: also compare SHA-256, which reads the whole files.
    each: wraps the list of shards, to show progress.

  Returns:
    split -> what is wrong, only for splits with faults.
  """
  faults: dict[str, list[str]] = {}
  pairs = [(name, shard) for name, split in manifest.splits.items() for shard in split.shards]
  for name, shard in each(pairs):
    try:
      check_shard(directory, shard, checksum=checksums)
    except DataError as error:
      faults.setdefault(name, []).append(str(error))
  return faults


def survey_split(
  directory,
  manifest: Manifest,
  split: str,
  *,
  samples: int = 0,
  each: Callable[[Iterable[Video]], Iterable[Video]] = iter,
) -> SplitSurvey:
  """Reads a split, one video at a time. Its shards must be intact.

  Args:
    directory: the data set folder.
    manifest: its manifest.
    split: a name.
    samples: how many videos to keep as samples.
    each: wraps the videos, to show progress.
  """
  source = SplitSource(pathlib.Path(directory), manifest.splits[split].shards, manifest.streams)
  vocabulary = Vocabulary.from_dict(manifest.vocabulary) if manifest.vocabulary else None
  survey = SplitSurvey(streams={s.name: StreamSurvey() for s in manifest.streams})
  chosen = set(subsample(len(source), samples).tolist()) if samples else ()
  for video in each(source):
    if survey.videos in chosen:
      frames = {name: len(array) for name, array in video.features.items()}
      survey.samples.append(Sample(video.video_id, video.captions, video.category, frames))
    survey.videos += 1
    _add_captions(survey, video, vocabulary)
    for stream in manifest.streams:
      _add_features(survey.streams[stream.name], video, stream)
  return survey


def _add_captions(survey: SplitSurvey, video: Video, vocabulary: Vocabulary | None) -> None:
  survey.captions[video.video_id] = len(video.captions)
  survey.repeated_captions += len(video.captions) - len(set(video.captions))
  known, total = survey.known
  for caption in video.captions:
    words = vocabulary.tokenize(caption) if vocabulary else tokenize(caption)
    survey.words.append(len(words))
    survey.counts.update(words)
    if vocabulary:
      words = words[: vocabulary.max_words]
      known += sum(vocabulary.index.get(word, UNK) > UNK for word in words)
      total += len(words)
  survey.known = known, total


def _add_features(survey: StreamSurvey, video: Video, stream: Stream) -> None:
  array = video.features[stream.name]
  if not len(array):
    survey.lacking.append(video.video_id)
    return
  survey.frames[video.video_id] = len(array)
  finite = np.isfinite(array)
  if not finite.all():
    survey.not_finite.append(video.video_id)
    array_finite = array[finite]
  else:
    array_finite = array
  if array_finite.size:
    survey.lowest = min(survey.lowest, float(array_finite.min()))
    survey.highest = max(survey.highest, float(array_finite.max()))
  if array.size > 1 and (array == array.flat[0]).all():
    survey.constant.append(video.video_id)
  frames = [hashlib.blake2b(frame.tobytes(), digest_size=16).digest() for frame in array]
  repeated = len(frames) - len(set(frames))
  if repeated:
    survey.repeated_frames[video.video_id] = repeated, len(frames)
  survey.digests[hashlib.blake2b(b''.join(frames), digest_size=16).digest()].append(video.video_id)


def unusual_lengths(frames: dict[str, int]) -> tuple[list[str], list[str]]:
  """Finds videos with far fewer or far more frames than the others, the most extreme first.

  Far means outside Tukey's outer fences (three interquartile ranges beyond the quartiles), and at
  least a factor of two from the median.
  """
  if len(frames) < 4:
    return [], []
  lengths = np.array(list(frames.values()))
  low, median, high = np.percentile(lengths, (25, 50, 75))
  fence = 3 * (high - low)
  short = [v for v, n in frames.items() if n < low - fence and n <= median / 2]
  long = [v for v, n in frames.items() if n > high + fence and n >= median * 2]
  return sorted(short, key=frames.__getitem__), sorted(long, key=lambda v: -frames[v])
