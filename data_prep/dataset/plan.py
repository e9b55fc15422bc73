"""Plans a build before anything is written: videos per split, streams, shards."""

import dataclasses
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from data_prep.dataset import writer
from data_prep.dataset.options import Options, dataset_name, resolve
from vidcap_jax.annotations import published, read_annotations, splits
from vidcap_jax.annotations.model import AnnotatedVideo, Annotations
from vidcap_jax.data.schema import Dropped
from vidcap_jax.data.vocabulary import Vocabulary, load_vocabulary
from vidcap_jax.errors import DataError, first_few
from vidcap_jax.features.formats import FeatureReader, names, open_features, read_sidecar
from vidcap_jax.features.formats.check import describe
from vidcap_jax.features.formats.declarations import Declarations
from vidcap_jax.features.picture_files import is_picture
from vidcap_jax.features.sources import Source, read_features
from vidcap_jax.progress import progress

SAMPLES = 16  # videos read to find a stream's kind and sizes

Videos = Mapping[str, Sequence[AnnotatedVideo]]  # by split


@dataclasses.dataclass(frozen=True)
class BuildPlan:
  """What a build is going to write.

  Attributes:
    options: as of ``options.resolve``.
    name: of the data set.
    annotations: as read.
    all_videos: of the splits.
    videos: those of all_videos that are written.
    unassigned: videos that are in no split.
    incomplete: videos that are not written, as they have no features or captions.
    sources: of the feature streams.
    shards: to write.
    vocabulary: that of ``--vocabulary``; None to make one from the training captions.
    notes: what is odd about the annotations.
    inputs: hash of all that the data set is made from.
  """

  options: Options
  name: str
  annotations: Annotations
  all_videos: Videos
  videos: Videos
  unassigned: Sequence[Dropped]
  incomplete: Sequence[Dropped]
  sources: Sequence[Source]
  shards: Sequence[writer.ShardPlan]
  vocabulary: Vocabulary | None
  notes: Sequence[str]
  inputs: str


def plan_build(options: Options) -> BuildPlan:
  """Reads the annotations and the names and sizes of the features; writes nothing.

  Raises:
    DataError: wrong options, annotations or splits, or features that do not match them.
  """
  options = resolve(options)
  name = dataset_name(options)
  vocabulary = load_vocabulary(options.vocabulary) if options.vocabulary else None
  annotations = read_annotations(options.form, options.annotations, options.language)
  aliases = splits.read_id_map(options.id_map) if options.id_map else {}
  chosen = splits.choose(options.splits, annotations, aliases) if options.splits else None
  all_videos, unassigned = splits.assign(annotations, chosen, options.split)
  _check_leak(options.leak_words_of, all_videos)
  counts = published.counts_of(options.form, options.splits, options.split)
  notes = [
    *published.check(all_videos, counts, fail=options.counts == 'fail'),
    *annotations.notes,
    *splits.shared_sources(all_videos),
  ]
  aliases = {**picture_names(annotations.videos.values()), **aliases}
  sources = open_sources(
    options.features, all_videos, options, dtype=options.dtype, aliases=aliases
  )
  videos, incomplete = drop_incomplete(all_videos, sources, skip=options.missing == 'skip')
  shards = plan_shards(name, videos, sources, options.align, options.shard_mb)
  return BuildPlan(
    options=options,
    name=name,
    annotations=annotations,
    all_videos=all_videos,
    videos=videos,
    unassigned=[Dropped(v.video_id, '', 'in no split') for v in unassigned],
    incomplete=incomplete,
    sources=sources,
    shards=shards,
    vocabulary=vocabulary,
    notes=notes,
    inputs=_inputs_hash(shards, options, vocabulary),
  )


def _check_leak(leaked: Sequence[str], videos: Videos) -> None:
  """DataError unless the splits of ``--leak_words_of`` exist besides a split train."""
  for split in leaked:
    if split == 'train' or split not in videos or leaked.count(split) > 1:
      others = ', '.join(name for name in videos if name != 'train')
      raise DataError(
        f'--leak_words_of={",".join(leaked)}: {split!r} must be a split besides train, named once; '
        f'this data set has: {others or "none"}'
      )
  if leaked and 'train' not in videos:
    raise DataError(
      '--leak_words_of: without a split train no vocabulary is made; leave the flag out'
    )


def picture_names(videos: Iterable[AnnotatedVideo]) -> dict[str, str]:
  """The file names of pictures whose ids are numbers, as in COCO: features may have either name."""
  files = {v.video_id: v.source for v in videos if v.source and '://' not in v.source}
  return {i: name for i, name in files.items() if is_picture(pathlib.Path(name))}


def _inputs_hash(
  shards: Sequence[writer.ShardPlan], options: Options, vocabulary: Vocabulary | None
) -> str:
  if vocabulary:
    words: object = vocabulary.to_dict()
  else:
    words = [options.tokenizer, options.min_count, options.max_words]
    if options.leak_words_of:  # else the hash is that of earlier versions
      words = [*words, list(options.leak_words_of)]
  parts = [[(s.split, s.file, s.key) for s in shards], words, options.missing, options.bad]
  return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def open_reader(stream: str, path: str, declared: Declarations) -> FeatureReader:
  """Opens a stream's features as declared; DataError as of ``open_features``."""
  options = (declared.keys, declared.rows, declared.readers)
  return open_features(stream, path, *(option.get(stream) for option in options))


def open_sources(
  features: Mapping[str, str],
  videos: Videos,
  declared: Declarations,
  *,
  dtype: str,
  aliases: Mapping[str, str],
) -> list[Source]:
  """Opens the feature streams, and finds each one's kind and sizes.

  Args:
    features: stream -> path.
    videos: by split.
    declared: the options for streams.
    dtype: of storage.
    aliases: video id -> other name that its features may have.

  Raises:
    DataError: nothing at a path, no features for any of the videos, several features that match
      one video, or arrays with an unknown or undeclared layout.
  """
  ids = [v.video_id for split_videos in videos.values() for v in split_videos]
  normal = names.normal_form(declared.match)
  sources = []
  for stream_name, path in features.items():
    reader = open_reader(stream_name, path, declared)
    sidecar = read_sidecar(stream_name, path)
    matched = names.match(ids, reader.ids, aliases, normal, stream_name)
    if not matched:
      raise DataError(
        f'stream {stream_name!r}: no features in {path} have the name of a video of the splits: '
        f'features {splits.three(reader.ids)}; videos {splits.three(ids)}; see --match and --id_map'
      )
    stream, layout = describe(
      stream_name,
      reader,
      _sample(matched),
      declared=declared.layouts.get(stream_name) or sidecar.get('layout'),
      kind=declared.kinds.get(stream_name) or sidecar.get('kind'),
      dtype=dtype,
      optional=stream_name in declared.optional,
      sidecar=sidecar,
    )
    limits = (declared.max_frames.get(stream_name), declared.max_regions.get(stream_name))
    block = declared.blocks.get(stream_name)
    sources.append(Source(stream, reader, matched, layout, *limits, block))
  return sources


def _sample(matched: Mapping[str, str]) -> list[str]:
  """The names of some evenly spaced features."""
  features = list(matched.values())
  return features[:: max(1, len(features) // SAMPLES)][:SAMPLES]


def drop_incomplete(
  videos: Videos, sources: Sequence[Source], *, skip: bool
) -> tuple[dict[str, list[AnnotatedVideo]], list[Dropped]]:
  """Leaves out videos that lack features, and training videos without a caption.

  Args:
    videos: by split.
    sources: the streams.
    skip: leave videos without features out; otherwise they are an error.

  Raises:
    DataError: videos without features that are not to be skipped, or a split that is left empty.
  """
  remaining: dict[str, list[AnnotatedVideo]] = {}
  dropped = []
  without_features = set()
  for split, split_videos in videos.items():
    remaining[split] = []
    for video in split_videos:
      required = [s for s in sources if not s.stream.optional]
      missing = [s.stream.name for s in required if video.video_id not in s.names]
      if missing:
        without_features.add(video.video_id)
        dropped.append(Dropped(video.video_id, split, f'no features in {", ".join(missing)}'))
      elif split == 'train' and not video.captions:
        dropped.append(Dropped(video.video_id, split, 'no caption to train on'))
      else:
        remaining[split].append(video)
  if without_features and not skip:
    count = sum(map(len, videos.values()))
    where = ', '.join(f'{s.stream.name} in {s.reader.path}' for s in sources)
    problems = [
      f'{d.video_id} ({d.split}: {d.reason})' for d in dropped if d.video_id in without_features
    ]
    raise DataError(
      f'{len(without_features)} of {count} videos have no features ({where}): '
      + first_few(problems, '; ')
      + ''.join(map(_unused_note, sources))
      + '; leave them out with --missing=skip, or name streams that may be absent in --optional',
      problems,
    )
  check_not_empty(remaining, dropped)
  return remaining, dropped


def _unused_note(source: Source) -> str:
  """Names features that belong to no video, for messages; empty if there are none."""
  if not source.unused:
    return ''
  return f'; features of {source.stream.name} without a video: {splits.three(source.unused)}'


def check_not_empty(videos: Videos, dropped: Sequence[Dropped]) -> None:
  """Raises DataError for a split without videos, with why the first one was dropped."""
  for split, split_videos in videos.items():
    if split_videos:
      continue
    dropped_here = [d for d in dropped if d.split == split]
    why = 'none is listed for it'
    if dropped_here:
      first = dropped_here[0]
      why = f'all {len(dropped_here)} were dropped, the first ({first.video_id}): {first.reason}'
    raise DataError(f'split {split!r} is left without videos: {why}')


def plan_shards(
  dataset: str,
  videos: Videos,
  sources: Sequence[Source],
  align: Mapping[str, str],
  shard_mb: float,
) -> list[writer.ShardPlan]:
  """Cuts each split into shards of about ``shard_mb`` MiB."""
  size = max(1.0, sum(map(_bytes_per_video, sources)))
  per_shard = max(1, int(shard_mb * 2**20 / size))
  plan = []
  for split, split_videos in videos.items():
    starts = range(0, len(split_videos), per_shard)
    shards = [split_videos[start : start + per_shard] for start in starts]
    for i, shard in enumerate(shards):
      file = writer.shard_name(dataset, split, i, len(shards))
      plan.append(writer.ShardPlan(split, file, shard, writer.shard_key(shard, sources, align)))
  return plan


def _bytes_per_video(source: Source) -> float:
  sizes = []
  for name in _sample(source.names):
    try:
      array = source.reader.read(name)
    except DataError:  # reported when the video is written
      continue
    share = min(1.0, (source.max_frames or len(array)) / max(1, len(array))) if array.ndim else 1.0
    sizes.append(array.size * share)
  width = 2 if source.stream.dtype == 'float16' else 4
  return width * sum(sizes) / max(1, len(sizes))


def check_features(
  videos: Sequence[AnnotatedVideo], sources: Sequence[Source], align: Mapping[str, str]
) -> None:
  """Reads every feature once; DataError names all unusable ones."""
  problems = []
  for video in progress(videos, len(videos), 'checking features'):
    try:
      read_features(video.video_id, sources, align)
    except DataError as error:
      problems.append(f'{video.video_id}: {error}')
  raise_bad(problems, len(videos))


def raise_bad(problems: Sequence[str], videos: int) -> None:
  """Raises DataError if there are problems, one for each of some videos out of ``videos``."""
  if problems:
    raise DataError(
      f'{len(problems)} of {videos} videos have bad features: '
      + first_few(problems, '; ')
      + '; leave them out with --bad=skip',
      problems,
    )
