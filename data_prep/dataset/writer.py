"""Writes a data set's shards, so that an interrupted build goes on where it stopped.

Each finished shard leaves a small JSON file in ``DIR/.build`` with its checksum, what was dropped,
and its part of the statistics, under a key made of its inputs. A later build with the same inputs
takes it over; only unfinished shards are written again. One video is in memory at a time.
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

STATE_FOLDER = '.build'
_SHARD_FILE = re.compile(r'.+-.+\.array_record-\d{5,}-of-\d{5,}(\.partial)?')
_METADATA = ('dataset_info.json', 'features.json', 'inspect.html')  # What describes the shards.


@dataclasses.dataclass
class ShardResult:
  """A finished shard, and what its videos add to the manifest.

  Attributes:
    shard: as in the manifest.
    captions: of all its videos.
    dropped: (id, reason) of videos with unusable features.
    present: how many videos have each stream.
    longest, most_regions: of any video, by stream.
    moments: by stream; of the training split.
  """

  shard: Shard
  captions: int
  dropped: list[tuple[str, str]]
  present: dict[str, int]
  longest: dict[str, int]
  most_regions: dict[str, int]
  moments: dict[str, Moments]

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
    }
    return cls(**{**data, **fixed})


def shard_key(
  videos: Sequence[AnnotatedVideo], sources: Sequence[Source], align: Mapping[str, str]
) -> str:
  """Identifies a shard's inputs: videos, captions, streams, and size and time of their files."""
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
  """A folder's name as TFDS takes it, first a letter: data_1k_a for 1k-A."""
  name = re.sub(r'[^a-z0-9]+', '_', folder.lower()).strip('_')
  return name if name[:1].isalpha() else f'data_{name}'.rstrip('_')


def shard_name(dataset: str, split: str, index: int, shards: int) -> str:
  """TFDS's default file name."""
  return f'{dataset}-{split}.array_record-{index:05d}-of-{shards:05d}'


def result_of(directory: pathlib.Path, name: str, key: str) -> ShardResult | None:
  """What was said of a shard when it was finished, if it was made from the same inputs."""
  try:
    data = json.loads((directory / STATE_FOLDER / f'{name}.json').read_text())
    return ShardResult.from_dict(data) if data.pop('key') == key else None
  except Exception:  # Whatever is wrong with it, the shard is written again.
    return None


def finished_shard(
  directory: pathlib.Path, name: str, key: str, *, skip: bool
) -> ShardResult | None:
  """The result of a shard that an earlier build finished from the same inputs, if it is intact.

  A shard with videos left out counts only where bad videos are to be skipped.
  """
  result = result_of(directory, name, key)
  if result is None or (result.dropped and not skip):
    return None
  path = directory / name
  try:
    intact = count_records(path) == result.shard.records and sha256(path) == result.shard.sha256
  except Exception:  # As above.
    return None
  return result if intact else None


def build_shard(
  directory: pathlib.Path,
  name: str,
  key: str,
  videos: Sequence[AnnotatedVideo],
  sources: Sequence[Source],
  *,
  align: Mapping[str, str],
  statistics: bool,
  skip: bool,
  done: Callable[[], object],
) -> ShardResult:
  """Writes one shard and its state file.

  Args:
    directory: the data set folder.
    name: file name of the shard.
    key: ``shard_key`` of what follows.
    videos: that go into it.
    sources: of their features.
    statistics: whether to gather means and deviations (training split).
    align: streams of equal length, see ``lengths.align``.
    skip: leave videos with bad features out instead of failing.
    done: called after each video.
  """
  stored = tfds_features([s.stream for s in sources])
  streams = {s.stream.name: s.stream for s in sources}
  result = ShardResult(
    Shard(name, 0, ''),
    0,
    [],
    dict.fromkeys(streams, 0),
    dict.fromkeys(streams, 0),
    {n: 0 for n, s in streams.items() if s.kind == 'regions'},
    {n: Moments.zeros(s.channels) for n, s in streams.items()} if statistics else {},
  )

  def records():
    for annotated in videos:
      try:
        features = read_features(annotated.video_id, sources, align)
      except DataError as error:
        if not skip:
          raise
        result.dropped.append((annotated.video_id, str(error)))
        continue
      finally:
        done()
      video = Video(annotated.video_id, tuple(annotated.captions), features, annotated.category)
      _add(result, video, streams)
      yield encode_video(video, stored)

  result.shard = write_shard(directory / name, records())
  state = directory / STATE_FOLDER / f'{name}.json'
  partial = state.with_suffix('.partial')
  partial.write_text(json.dumps({'key': key, **result.to_dict()}))
  partial.replace(state)
  return result


def _add(result: ShardResult, video: Video, streams: Mapping[str, Stream]) -> None:
  result.captions += len(video.captions)
  for name, array in video.features.items():
    result.present[name] += len(array) > 0
    result.longest[name] = max(result.longest[name], len(array))
    if name in result.most_regions:
      result.most_regions[name] = max(result.most_regions[name], array.shape[1])
    if name in result.moments:
      moments = Moments.of(np.asarray(array), streams[name])
      result.moments[name] = result.moments[name].merge(moments)


def merge_streams(
  streams: Sequence[Stream], results: Mapping[str, Sequence[ShardResult]]
) -> tuple[Stream, ...]:
  """The streams with longest, most_regions, mean and std over all shards filled in."""
  merged = []
  every = [result for split in results.values() for result in split]
  for stream in streams:
    name = stream.name
    moments = Moments.zeros(stream.channels)
    for result in every:
      if name in result.moments:
        moments = moments.merge(result.moments[name])
    merged.append(
      dataclasses.replace(
        stream,
        longest=max(1, *(r.longest[name] for r in every)),
        most_regions=max((r.most_regions.get(name, 0) for r in every), default=0),
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
    check_data=False,  # That check would need TensorFlow.
    description=f'Video features and captions: {dataset}.',
  )


def prepare(directory: pathlib.Path, keep: Sequence[str]) -> None:
  """Makes the folder ready for a build: earlier ones' manifest, shards and metadata are removed.

  Args:
    directory: the data set folder; made if need be.
    keep: names of finished shards, which stay.
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
