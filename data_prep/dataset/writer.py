"""Writes a data set's shards so that an interrupted build can resume.

For each finished shard, a small JSON file in ``DIR/.build`` holds its checksum, the dropped videos,
its part of the statistics, and a key of its inputs. A later build with the same inputs reuses the
shard; only unfinished shards are written again. One video is in memory at a time.
"""

import dataclasses
import hashlib
import json
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vidcap_jax.annotations.model import AnnotatedVideo
from vidcap_jax.data.records import (
  Video,
  count_records,
  encode_video,
  sha256,
  tfds_features,
  write_shard,
)
from vidcap_jax.data.schema import MANIFEST_NAME, Shard, Split, Stream
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats.statistics import Moments
from vidcap_jax.features.sources import Source, read_features
from vidcap_jax.files import write_text

STATE_FOLDER = '.build'
_SHARD_FILE = re.compile(r'.+-.+\.array_record-\d{5,}-of-\d{5,}(\.partial)?')
_METADATA = ('dataset_info.json', 'features.json', 'inspect.html')  # describe the shards


@dataclasses.dataclass(frozen=True)
class ShardPlan:
  """A shard to write.

  Attributes:
    split: of its videos.
    file: its name in the data set folder.
    videos: in order.
    key: ``shard_key`` of all inputs that the shard is made from.
  """

  split: str
  file: str
  videos: Sequence[AnnotatedVideo]
  key: str


@dataclasses.dataclass
class ShardResult:
  """A finished shard, and its part of the manifest.

  Attributes:
    shard: as in the manifest.
    captions: number of captions of all its videos.
    dropped: (id, reason) of videos with unusable features.
    present: how many videos have each stream.
    longest, most_regions: largest number of frames and regions of a video, by stream.
    moments: by stream; only for the training split.
    underflow: stream -> (values that are not 0, those of them that are stored as 0).
  """

  shard: Shard
  captions: int
  dropped: list[tuple[str, str]]
  present: dict[str, int]
  longest: dict[str, int]
  most_regions: dict[str, int]
  moments: dict[str, Moments]
  underflow: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)

  def count_underflow(self, stream: str, nonzero: int, lost: int) -> None:
    """Adds the counts of one array, see ``sources.CountUnderflow``."""
    counts = self.underflow.get(stream, (0, 0))
    self.underflow[stream] = counts[0] + nonzero, counts[1] + lost

  def to_dict(self) -> dict:
    data = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
    data['shard'] = dataclasses.asdict(self.shard)
    data['moments'] = {name: m.to_dict() for name, m in self.moments.items()}
    return data

  @classmethod
  def from_dict(cls, data: Mapping) -> 'ShardResult':
    fixed = {
      'shard': Shard(**data['shard']),
      'dropped': [tuple(pair) for pair in data['dropped']],
      'moments': {name: Moments.from_dict(m) for name, m in data['moments'].items()},
      'underflow': {name: tuple(counts) for name, counts in data.get('underflow', {}).items()},
    }
    return cls(**{**data, **fixed})


def shard_key(
  videos: Sequence[AnnotatedVideo], sources: Sequence[Source], align: Mapping[str, str]
) -> str:
  """A hash of a shard's inputs: videos, captions, streams, and size and time of their files."""
  digest = hashlib.sha256(json.dumps(align, sort_keys=True).encode())
  for source in sources:
    form = [source.reader.key, source.layout.axes, source.max_frames, source.max_regions]
    if source.block is not None:
      form.append(source.block)
    digest.update(json.dumps([dataclasses.asdict(source.stream), form], sort_keys=True).encode())
  for video in videos:
    files = []
    for source in sources:
      name = source.names.get(video.video_id)
      files.append(None if name is None else source.reader.fingerprint(name))
    digest.update(
      json.dumps([video.video_id, video.captions, video.category, files]).encode() + b'\n'
    )
  return digest.hexdigest()


def dataset_name(folder: str) -> str:
  """A folder's name in the form that TFDS accepts: data_1k_a for 1k-A."""
  name = re.sub(r'[^a-z0-9]+', '_', folder.lower()).strip('_')
  return name if name[:1].isalpha() else f'data_{name}'.rstrip('_')


def shard_name(dataset: str, split: str, index: int, shards: int) -> str:
  """The file name of a shard, TFDS's default."""
  return f'{dataset}-{split}.array_record-{index:05d}-of-{shards:05d}'


def result_of(directory: pathlib.Path, shard: ShardPlan) -> ShardResult | None:
  """The result that a build recorded for a shard; None if its inputs were others."""
  try:
    data = json.loads((directory / STATE_FOLDER / f'{shard.file}.json').read_text())
    return ShardResult.from_dict(data) if data.pop('key') == shard.key else None
  except Exception:  # whatever is wrong with the state file, the shard is written again
    return None


def finished_shard(directory: pathlib.Path, shard: ShardPlan, *, skip: bool) -> ShardResult | None:
  """The result of a shard that an earlier build finished from the same inputs, if it is intact.

  Args:
    directory: the data set folder.
    shard: to look for.
    skip: whether videos with bad features may be left out; if not, a shard that left some out is
      written again.
  """
  result = result_of(directory, shard)
  if result is None or (result.dropped and not skip):
    return None
  path = directory / shard.file
  try:
    intact = count_records(path) == result.shard.records and sha256(path) == result.shard.sha256
  except Exception:  # a missing or damaged shard is written again
    return None
  return result if intact else None


def build_shard(
  directory: pathlib.Path,
  shard: ShardPlan,
  sources: Sequence[Source],
  *,
  align: Mapping[str, str],
  skip: bool,
  done: Callable[[], object] = lambda: None,
) -> ShardResult:
  """Writes one shard and its state file; means and deviations are of the training split.

  Args:
    directory: the data set folder.
    shard: to write.
    sources: of its videos' features.
    align: streams of equal length, see ``lengths.align``.
    skip: leave videos with bad features out instead of failing.
    done: called after each video.

  Raises:
    DataError: bad features, if they are not skipped.
  """
  specs = tfds_features([s.stream for s in sources])
  streams = {s.stream.name: s.stream for s in sources}
  moments = {n: Moments.zeros(s.channels) for n, s in streams.items()}
  result = ShardResult(
    shard=Shard(shard.file, 0, ''),
    captions=0,
    dropped=[],
    present=dict.fromkeys(streams, 0),
    longest=dict.fromkeys(streams, 0),
    most_regions={n: 0 for n, s in streams.items() if s.kind == 'regions'},
    moments=moments if shard.split == 'train' else {},
  )

  def records():
    for annotated in shard.videos:
      try:
        features = read_features(annotated.video_id, sources, align, result.count_underflow)
      except DataError as error:
        if not skip:
          raise
        result.dropped.append((annotated.video_id, str(error)))
        continue
      finally:
        done()
      video = Video(annotated.video_id, tuple(annotated.captions), features, annotated.category)
      _add(result, video, streams)
      yield encode_video(video, specs)

  result.shard = write_shard(directory / shard.file, records())
  state = directory / STATE_FOLDER / f'{shard.file}.json'
  write_text(state, json.dumps({'key': shard.key, **result.to_dict()}))
  return result


def _add(result: ShardResult, video: Video, streams: Mapping[str, Stream]) -> None:
  result.captions += len(video.captions)
  for name, array in video.features.items():
    result.present[name] += len(array) > 0
    result.longest[name] = max(result.longest[name], len(array))
    if name in result.most_regions:
      result.most_regions[name] = max(result.most_regions[name], array.shape[1])
    if name in result.moments:
      moments = Moments.from_array(np.asarray(array), streams[name])
      result.moments[name] = result.moments[name].merge(moments)


def merge_streams(
  streams: Sequence[Stream], results: Mapping[str, Sequence[ShardResult]]
) -> tuple[Stream, ...]:
  """The streams with longest, most_regions, mean and std over all shards filled in."""
  merged = []
  all_results = [result for split in results.values() for result in split]
  for stream in streams:
    name = stream.name
    moments = Moments.zeros(stream.channels)
    for result in all_results:
      if name in result.moments:
        moments = moments.merge(result.moments[name])
    merged.append(
      dataclasses.replace(
        stream,
        longest=max(1, *(r.longest[name] for r in all_results)),
        most_regions=max((r.most_regions.get(name, 0) for r in all_results), default=0),
        mean=tuple(moments.mean.tolist()) if moments.count else (),
        std=tuple(moments.std.tolist()) if moments.count else (),
      )
    )
  return tuple(merged)


def split_of(results: Sequence[ShardResult]) -> Split:
  """The manifest's entry for a split."""
  shards = tuple(r.shard for r in results)
  return Split(sum(s.records for s in shards), sum(r.captions for r in results), shards)


def write_tfds_metadata(
  directory: pathlib.Path, dataset: str, streams: Sequence[Stream], splits: Mapping[str, Split]
) -> None:
  """Writes what ``tfds.builder_from_directory`` needs to open the folder."""
  import tensorflow_datasets as tfds

  infos = [
    tfds.core.SplitInfo(
      name=name,
      shard_lengths=[s.records for s in split.shards],
      num_bytes=sum((directory / s.file).stat().st_size for s in split.shards),
    )
    for name, split in splits.items()
  ]
  tfds.folder_dataset.write_metadata(
    data_dir=str(directory),
    features=tfds_features(streams),
    split_infos=infos,
    version='1.0.0',
    check_data=False,  # the check would need TensorFlow
    description=f'Video features and captions: {dataset}.',
  )


def prepare(directory: pathlib.Path, keep: Sequence[str]) -> None:
  """Prepares the folder for a build: removes the manifest, shards and metadata of earlier ones.

  Args:
    directory: the data set folder; created if missing.
    keep: names of finished shards to keep.
  """
  state = directory / STATE_FOLDER
  state.mkdir(parents=True, exist_ok=True)
  (directory / MANIFEST_NAME).unlink(missing_ok=True)
  for file in directory.iterdir():
    if file.name in _METADATA or (_SHARD_FILE.fullmatch(file.name) and file.name not in keep):
      file.unlink()
  for file in state.iterdir():
    if file.name.removesuffix('.json') not in keep:
      file.unlink()


def finish(directory: pathlib.Path) -> None:
  """Removes the state files of a build that is complete."""
  state = directory / STATE_FOLDER
  for file in state.iterdir():
    file.unlink()
  state.rmdir()
