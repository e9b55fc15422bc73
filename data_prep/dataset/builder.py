"""Builds a data set folder from annotations and features: the steps of ``data_prep.build``.

    manifest, report = build(Options(form='jsonl', annotations=('clips.jsonl',),
                                     features={'image': 'features/'}, out='data/clips'))

The folder that results is a TFDS data set: ``tfds.builder_from_directory(out)`` opens it.
"""

import dataclasses
import importlib.metadata
import pathlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from data_prep.dataset import coverage, plan, writer
from data_prep.dataset.options import Options, recorded
from data_prep.dataset.plan import BuildPlan
from data_prep.dataset.writer import ShardPlan, ShardResult
from vidcap_jax import config_diff
from vidcap_jax.annotations.model import AnnotatedVideo
from vidcap_jax.counts import counted
from vidcap_jax.data.records import check_shard
from vidcap_jax.data.schema import MANIFEST_NAME, Dropped, Manifest, read_manifest, write_manifest
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary, build_vocabulary
from vidcap_jax.data.vocabulary import coverage as words_known
from vidcap_jax.errors import DataError
from vidcap_jax.features.sources import Source
from vidcap_jax.files import check_output
from vidcap_jax.progress import progress

PACKAGES = ('array_record', 'numpy', 'tensorflow-datasets')  # whose versions are recorded

# Entries of ``Manifest.source`` that are not options.
_NOT_OPTIONS = ('inputs', 'captions_left_out')

# Builds all of the given shards, e.g. on other machines, leaving out videos with bad features.
ShardBuilder = Callable[[Options, Sequence[ShardPlan], Sequence[Source]], None]

# File name of a shard -> its result, None until it is built.
Results = Mapping[str, ShardResult | None]


@dataclasses.dataclass(frozen=True)
class Report:
  """What a build did, beyond what the manifest records.

  Attributes:
    unchanged: the folder held this data set already; nothing was written.
    reused: shards taken over from an interrupted build.
    notes: what is odd about the annotation: unexpected counts, shared sources.
    left_out: captions left out: reason -> id of the video of each.
    repeated: split -> captions that repeat another one of their video; they are written.
    without_captions: split -> videos that have no caption.
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


def build(options: Options, build_shards: ShardBuilder | None = None) -> tuple[Manifest, Report]:
  """Builds the data set, or finishes building it.

  Args:
    options: what to build.
    build_shards: builds the shards instead of this process, which does it one after another.

  Raises:
    UserError: bad input or output, found before a file is written where that is possible.
  """
  out = pathlib.Path(options.out)
  if not options.out or not out.exists():  # a finished data set may be on a read-only disk
    check_output('--output', options.out, folder=True)
  start = time.monotonic()
  planned = plan.plan_build(options)
  manifest = _existing(out, planned)
  if manifest:
    report = _report(planned, manifest, unchanged=True, reused=0, start=start)
  else:
    manifest, reused = _build(out, planned, build_shards)
    report = _report(planned, manifest, unchanged=False, reused=reused, start=start)
  return manifest, report


def _existing(out: pathlib.Path, planned: BuildPlan) -> Manifest | None:
  """The folder's manifest if it holds just this data set; None if it has to be built.

  Raises:
    DataError: the folder holds something else, or this data set with a broken shard.
  """
  if out.exists() and not out.is_dir():
    raise DataError(f'{out}: is a file; --output names a folder')
  if (out / MANIFEST_NAME).is_file():
    if planned.options.overwrite:
      return None
    manifest = read_manifest(out)
    if manifest.source.get('inputs') != planned.inputs:
      raise DataError(_difference(out, manifest, planned.options))
    for split in manifest.splits.values():
      for shard in split.shards:
        check_shard(out, shard)
    return manifest
  if out.is_dir() and any(out.iterdir()) and not (out / writer.STATE_FOLDER).is_dir():
    raise DataError(f'{out}: not empty and no data set; give a new or empty folder as --output')
  return None


def _difference(out: pathlib.Path, manifest: Manifest, options: Options) -> str:
  """The message that the folder's data set was built from something else."""
  saved = {k: v for k, v in manifest.source.items() if k not in _NOT_OPTIONS}
  changed = config_diff.differences(saved, recorded(options))
  if changed:
    changes = ', '.join(f'{k} {a!r} there, {b!r} now' for k, (a, b) in changed.items())
    what = f'Different: {changes}'
  else:
    what = 'The options are the same: the files that they name have changed.'
  return (
    f'{out}: holds a data set built from other inputs or options; give another --output, or '
    f'--overwrite. {what}'
  )


def _build(
  out: pathlib.Path, planned: BuildPlan, build_shards: ShardBuilder | None
) -> tuple[Manifest, int]:
  """Writes the data set; returns its manifest and the number of shards found finished."""
  options, skip = planned.options, planned.options.skip_bad
  if not planned.vocabulary:
    _make_vocabulary(planned.videos, options)  # to fail before any work if no word is frequent
  results = {s.file: writer.finished_shard(out, s, skip=skip) for s in planned.shards}
  reused = sum(result is not None for result in results.values())
  unfinished = [s for s in planned.shards if not results[s.file]]
  if build_shards:
    writer.prepare(out, keep=_finished(results))
    build_shards(options, unfinished, planned.sources)
    results |= _read_results(out, unfinished, skip=skip)
  elif not skip:
    videos = [video for shard in unfinished for video in shard.videos]
    plan.check_features(videos, planned.sources, options.align)
  by_split = _write_shards(out, planned, results)
  manifest = _manifest(planned, by_split)
  writer.write_tfds_metadata(out, planned.name, manifest.streams, manifest.splits)
  write_manifest(manifest, out)
  writer.finish(out)
  return manifest, reused


def _finished(results: Results) -> list[str]:
  return [file for file, result in results.items() if result]


def _read_results(out: pathlib.Path, shards: Sequence[ShardPlan], *, skip: bool) -> Results:
  """Results that a ``ShardBuilder`` left in the folder.

  Raises:
    DataError: it left out videos with bad features, which are not to be skipped.
  """
  results = {s.file: writer.result_of(out, s) for s in shards}
  if not skip:
    dropped = [f'{i}: {why}' for result in results.values() if result for i, why in result.dropped]
    plan.raise_bad(dropped, sum(len(s.videos) for s in shards))
  return results


def _write_shards(
  out: pathlib.Path, planned: BuildPlan, results: Results
) -> dict[str, list[ShardResult]]:
  """Writes the shards that have no result yet; returns all results by split."""
  writer.prepare(out, keep=_finished(results))
  videos = sum(len(s.videos) for s in planned.shards if not results[s.file])
  ticks = progress(range(videos + 1), videos, 'writing')
  by_split: dict[str, list[ShardResult]] = {}
  try:
    for shard in planned.shards:
      result = results[shard.file] or writer.build_shard(
        out,
        shard,
        planned.sources,
        align=planned.options.align,
        skip=planned.options.skip_bad,
        done=lambda: next(ticks),
      )
      by_split.setdefault(shard.split, []).append(result)
  finally:
    ticks.close()
  return by_split


def _manifest(planned: BuildPlan, results: Mapping[str, Sequence[ShardResult]]) -> Manifest:
  """The manifest of a data set whose shards are written."""
  annotations = planned.annotations
  bad = [
    Dropped(video_id, split, reason)
    for split, written in results.items()
    for result in written
    for video_id, reason in result.dropped
  ]
  dropped = (*planned.unassigned, *planned.incomplete, *bad)
  videos = _without(planned.videos, dropped)
  plan.check_not_empty(videos, dropped)
  vocabulary = planned.vocabulary or _make_vocabulary(videos, planned.options)
  return Manifest(
    name=planned.name,
    streams=writer.merge_streams([s.stream for s in planned.sources], results),
    splits={split: writer.split_of(written) for split, written in results.items()},
    vocabulary=vocabulary.to_dict() if vocabulary else None,
    dropped=dropped,
    coverage=_coverage(planned, results, videos),
    categories=1 + max(v.category for v in annotations.videos.values()),
    versions={package: importlib.metadata.version(package) for package in PACKAGES},
    source={
      **recorded(planned.options),
      'inputs': planned.inputs,
      'captions_left_out': {r: dict(Counter(ids)) for r, ids in annotations.left_out.items()},
    },
  )


def _coverage(
  planned: BuildPlan, results: Mapping[str, Sequence[ShardResult]], videos: plan.Videos
) -> dict[str, dict]:
  """The counts of the manifest, by split."""
  counts = coverage.coverage(planned.all_videos, results, planned.incomplete)
  if planned.options.tokenizer != 'whitespace':  # those captions are split already
    for split, part in videos.items():
      counts[split] |= coverage.metric_words(c for video in part for c in video.captions)
  return counts


def _make_vocabulary(videos: plan.Videos, options: Options) -> Vocabulary | None:
  """The vocabulary of the training split and of ``leak_words_of``; None without a training split.

  Raises:
    DataError: no word is frequent enough.
  """
  if 'train' not in videos:
    return None
  vocabulary = build_vocabulary(
    (c for split in ('train', *options.leak_words_of) for v in videos[split] for c in v.captions),
    options.min_count,
    options.max_words,
    options.tokenizer,
    options.leak_words_of,
  )
  if len(vocabulary) == len(SPECIAL):
    raise DataError(
      f'no word occurs {options.min_count} times in the captions of the training split '
      f'({counted(len(videos["train"]), "video")}); lower --min_count'
    )
  return vocabulary


def _report(
  planned: BuildPlan, manifest: Manifest, *, unchanged: bool, reused: int, start: float
) -> Report:
  videos = _without(planned.videos, manifest.dropped)
  vocabulary = Vocabulary.from_dict(manifest.vocabulary) if manifest.vocabulary else None
  return Report(
    unchanged=unchanged,
    reused=reused,
    notes=planned.notes,
    left_out=planned.annotations.left_out,
    repeated={
      split: sum(len(v.captions) - len(set(v.captions)) for v in part)
      for split, part in videos.items()
    },
    without_captions={s: sum(not v.captions for v in part) for s, part in videos.items()},
    coverage={
      split: words_known(vocabulary, (caption for v in part for caption in v.captions))
      for split, part in videos.items()
      if vocabulary
    },
    unused={s.stream.name: s.unused for s in planned.sources},
    seconds=time.monotonic() - start,
  )


def _without(videos: plan.Videos, dropped: Sequence[Dropped]) -> dict[str, list[AnnotatedVideo]]:
  ids = {d.video_id for d in dropped}
  return {split: [v for v in part if v.video_id not in ids] for split, part in videos.items()}
