"""Builds a data set folder from annotations and features: the steps of ``data_prep.build``.

    manifest, report = build(Options(form='jsonl', annotations=('clips.jsonl',),
                                     features={'image': 'features/'}, out='data/clips'))

The folder that results is a TFDS data set: ``tfds.builder_from_directory(out)`` opens it.
"""

import dataclasses
import hashlib
import importlib.metadata
import pathlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from data_prep.dataset import coverage, plan, writer
from vidcap_jax import config_diff
from vidcap_jax.annotations import published, read_annotations, splits
from vidcap_jax.annotations.model import AnnotatedVideo
from vidcap_jax.data.records import check_shard
from vidcap_jax.data.schema import MANIFEST_NAME, Dropped, Manifest, read_manifest, write_manifest
from vidcap_jax.data.vocabulary import (
  SPECIAL,
  Vocabulary,
  build_vocabulary,
  load_vocabulary,
  tokenize,
)
from vidcap_jax.data.vocabulary import coverage as words_known
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import declarations
from vidcap_jax.features.sources import Source
from vidcap_jax.progress import progress

PACKAGES = ('array_record', 'numpy', 'tensorflow-datasets')  # Whose versions are recorded.


@dataclasses.dataclass(frozen=True)
class Options(declarations.Declarations):
  """What to build; the fields are the options of ``data_prep.build``."""

  form: str
  annotations: Sequence[str]
  features: Mapping[str, str]
  out: str
  name: str | None = None
  splits: str | None = None
  split: str | None = None
  id_map: str | None = None
  language: str | None = None
  counts: str = 'fail'
  missing: str = 'fail'
  dtype: str = 'float16'
  vocabulary: str | None = None
  tokenizer: str = ''  # ptb_like, or by_character for Chinese.
  min_count: int = 3
  max_words: int = 20
  shard_mb: float = 256.0
  overwrite: bool = False


@dataclasses.dataclass(frozen=True)
class Report:
  """What a build did, beyond what the manifest says.

  Attributes:
    unchanged: the folder held this data set already; nothing was written.
    reused: shards taken over from an interrupted build.
    notes: what is odd about the annotation: unexpected counts, shared sources.
    left_out: captions left out: reason -> id of the video of each.
    repeated: split -> captions that their video has already; they are kept.
    without_captions: split -> kept videos that have no caption.
    coverage: split -> (known, all) words of its captions; empty without a vocabulary.
    unused: stream -> names of features that belong to no video of any split.
    seconds: wall time.
  """

  unchanged: bool
  reused: int
  notes: Sequence[str]
  left_out: Mapping[str, Sequence[str]]
  repeated: Mapping[str, int]
  without_captions: Mapping[str, int]
  coverage: Mapping[str, tuple[int, int]]
  unused: Mapping[str, Sequence[str]]
  seconds: float


# Builds shards somewhere else, all of them, leaving out videos with bad features.
Spread = Callable[[Options, Sequence[plan.ShardPlan], Sequence[Source]], None]


def build(options: Options, spread: Spread | None = None) -> tuple[Manifest, Report]:
  """Builds the data set, or finishes building it.

  Args:
    options: what to build.
    spread: builds the shards, where that is not to be done here, one after the other.

  Raises:
    DataError: bad input. What can be found beforehand is, before a file is written.
  """
  start = time.monotonic()
  if not options.tokenizer:
    usual = 'by_character' if options.language == 'zh' else 'ptb_like'
    options = dataclasses.replace(options, tokenizer=usual)
  name = _check_options(options)
  given = load_vocabulary(options.vocabulary) if options.vocabulary else None
  skip = (options.bad or options.missing) == 'skip'

  annotations = read_annotations(options.form, options.annotations, options.language)
  aliases = splits.read_id_map(options.id_map) if options.id_map else {}
  listed = splits.choose(options.splits, annotations, aliases) if options.splits else None
  all_videos, unassigned = splits.assign(annotations, listed, options.split)
  counts = published.counts_of(options.form, options.splits, options.split)
  notes = [
    *published.check(all_videos, counts, fail=options.counts == 'fail'),
    *annotations.notes,
    *splits.shared_sources(all_videos),
  ]
  sources = plan.open_sources(
    options.features,
    all_videos,
    options,
    dtype=options.dtype,
    aliases=aliases,
  )
  videos, lacking = plan.drop_lacking(all_videos, sources, skip=options.missing == 'skip')
  dropped = [Dropped(v.video_id, '', 'in no split') for v in unassigned] + lacking

  out = pathlib.Path(options.out)
  shards = plan.plan_shards(name, videos, sources, options.align, options.shard_mb)
  inputs = _inputs_hash(shards, options, given)
  manifest = _existing(out, inputs, options)
  unchanged, reused = manifest is not None, 0
  if manifest is None:
    if not given:
      _vocabulary(videos, options)  # Whether there are words at all is better known now.
    found = {s.file: writer.finished_shard(out, s.file, s.key, skip=skip) for s in shards}
    reused = sum(result is not None for result in found.values())
    left = [s for s in shards if not found[s.file]]
    if spread:
      writer.prepare(out, keep=[file for file, result in found.items() if result])
      spread(options, left, sources)
      found |= _built_elsewhere(out, left, skip=skip)
    elif not skip:
      plan.check_features([v for s in left for v in s.videos], sources, options.align)
    results = _write(out, shards, found, sources, options.align, skip=skip)
    for split, written in results.items():
      dropped += [Dropped(i, split, reason) for r in written for i, reason in r.dropped]
    videos = _without(videos, dropped)
    plan.check_not_empty(videos, dropped)
    vocabulary = given or _vocabulary(videos, options)
    manifest = Manifest(
      name=name,
      streams=writer.merge_streams([s.stream for s in sources], results),
      splits={split: writer.split_of(written) for split, written in results.items()},
      vocabulary=vocabulary.to_dict() if vocabulary else None,
      dropped=tuple(dropped),
      coverage=coverage.coverage(all_videos, results, lacking),
      categories=1 + max(v.category for v in annotations.videos.values()),
      versions={package: importlib.metadata.version(package) for package in PACKAGES},
      source={
        **_source(options),
        'inputs': inputs,
        'captions_left_out': {r: dict(Counter(ids)) for r, ids in annotations.left_out.items()},
      },
    )
    writer.write_tfds_metadata(out, name, manifest.streams, manifest.splits)
    write_manifest(manifest, out)
    writer.finish(out)

  videos = _without(videos, manifest.dropped)
  words = Vocabulary.from_dict(manifest.vocabulary) if manifest.vocabulary else None
  report = Report(
    unchanged=unchanged,
    reused=reused,
    notes=notes,
    left_out=annotations.left_out,
    repeated={
      split: sum(len(v.captions) - len(set(v.captions)) for v in part)
      for split, part in videos.items()
    },
    without_captions={s: sum(not v.captions for v in part) for s, part in videos.items()},
    coverage={
      split: words_known(words, (caption for v in part for caption in v.captions))
      for split, part in videos.items()
      if words
    },
    unused={s.stream.name: s.unused for s in sources},
    seconds=time.monotonic() - start,
  )
  return manifest, report


def _check_options(options: Options) -> str:
  """Checks what needs no file; returns the data set's name."""
  if options.missing not in ('fail', 'skip'):
    raise DataError(f'--missing={options.missing}: fail or skip')
  if options.counts not in ('fail', 'warn'):
    raise DataError(f'--counts={options.counts}: fail or warn')
  if options.dtype not in ('float16', 'float32'):
    raise DataError(f'--dtype={options.dtype}: float16 or float32')
  if options.min_count < 1 or options.max_words < 1:
    raise DataError('--min_count and --max_words are at least 1')
  if not options.shard_mb > 0:
    raise DataError(f'--shard_mb={options.shard_mb}: must be above 0')
  if options.splits and options.split:
    raise DataError('--splits and --split exclude each other')
  if not options.features:
    raise DataError('no feature stream; give at least one, as in --features=image=DIR')
  tokenize('', options.tokenizer)  # An unknown one is found here.
  for stream in options.features:
    if not re.fullmatch(r'[A-Za-z][A-Za-z0-9_]*', stream):
      raise DataError(
        f'stream name {stream!r}: use letters, digits and underscores, first a letter'
      )
  declarations.check(options, options.features)
  name = options.name or writer.dataset_name(pathlib.Path(options.out).resolve().name)
  if not re.fullmatch(r'[a-z][a-z0-9_]*', name):
    raise DataError(f'--name={name}: use small letters, digits and underscores, first a letter')
  return name


def _vocabulary(videos: plan.Videos, options: Options) -> Vocabulary | None:
  """That of the training split; None without one. DataError if no word is frequent enough."""
  if 'train' not in videos:
    return None
  vocabulary = build_vocabulary(
    (caption for video in videos['train'] for caption in video.captions),
    options.min_count,
    options.max_words,
    options.tokenizer,
  )
  if len(vocabulary) == len(SPECIAL):
    raise DataError(
      f'no word occurs {options.min_count} times in the captions of the training split '
      f'({len(videos["train"])} videos); lower --min_count'
    )
  return vocabulary


def _inputs_hash(
  shards: Sequence[plan.ShardPlan], options: Options, given: Vocabulary | None
) -> str:
  words = given.to_dict() if given else [options.tokenizer, options.min_count, options.max_words]
  parts = [[(s.split, s.file, s.key) for s in shards], words, options.missing, options.bad]
  return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _existing(out: pathlib.Path, inputs: str, options: Options) -> Manifest | None:
  """The folder's manifest if it holds just this data set; None if it is to be built.

  Raises:
    DataError: the folder holds something else, or this data set with a broken shard.
  """
  if out.exists() and not out.is_dir():
    raise DataError(f'{out}: is a file; --out names a folder')
  if (out / MANIFEST_NAME).is_file():
    if options.overwrite:
      return None
    manifest = read_manifest(out)
    if manifest.source.get('inputs') == inputs:
      for split in manifest.splits.values():
        for shard in split.shards:
          check_shard(out, shard)
      return manifest
    changed = config_diff.differing(
      {k: v for k, v in manifest.source.items() if k not in ('inputs', 'captions_left_out')},
      _source(options),
    )
    raise DataError(
      f'{out}: holds a data set built from other inputs or options; give another --out, or '
      '--overwrite. '
      + (
        'Different: ' + ', '.join(f'{k} {a!r} there, {b!r} now' for k, (a, b) in changed.items())
        if changed
        else 'The options are the same: the files that they name have changed.'
      )
    )
  if out.is_dir() and any(out.iterdir()) and not (out / writer.STATE_FOLDER).is_dir():
    raise DataError(f'{out}: not empty and no data set; give a new or empty folder as --out')
  return None


def _built_elsewhere(
  out: pathlib.Path, shards: Sequence[plan.ShardPlan], *, skip: bool
) -> dict[str, writer.ShardResult | None]:
  """Results of shards that were spread; videos left out are an error unless they may be."""
  found = {s.file: writer.result_of(out, s.file, s.key) for s in shards}
  dropped = [f'{i}: {why}' for result in found.values() if result for i, why in result.dropped]
  if not skip:
    plan.raise_bad(dropped, sum(len(s.videos) for s in shards))
  return found


def _write(
  out: pathlib.Path,
  shards: Sequence[plan.ShardPlan],
  found: Mapping[str, writer.ShardResult | None],
  sources: Sequence[Source],
  align: Mapping[str, str],
  *,
  skip: bool,
) -> dict[str, list[writer.ShardResult]]:
  """Writes the shards that no earlier build finished; results by split."""
  writer.prepare(out, keep=[file for file, result in found.items() if result])
  left = sum(len(s.videos) for s in shards if not found[s.file])
  ticks = progress(range(left + 1), left, 'writing')
  results: dict[str, list[writer.ShardResult]] = {}
  try:
    for shard in shards:
      result = found[shard.file] or writer.build_shard(
        out,
        shard.file,
        shard.key,
        shard.videos,
        sources,
        align=align,
        statistics=shard.split == 'train',
        skip=skip,
        done=lambda: next(ticks),
      )
      results.setdefault(shard.split, []).append(result)
  finally:
    ticks.close()
  return results


def _without(videos: plan.Videos, dropped: Sequence[Dropped]) -> dict[str, list[AnnotatedVideo]]:
  ids = {d.video_id for d in dropped}
  return {split: [v for v in part if v.video_id not in ids] for split, part in videos.items()}


def _source(options: Options) -> dict:
  """The options as the manifest records them."""
  data = dataclasses.asdict(options)
  kept = {k: v for k, v in data.items() if k not in ('out', 'overwrite') and v}
  return {k: list(v) if isinstance(v, tuple) else v for k, v in kept.items()}
