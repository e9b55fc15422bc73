"""Prints what is in a data set folder, and what is odd about it.

    python -m data_prep.inspect data/msrvtt [--verify]

The exit code is 1 if a shard is broken or a feature is NaN or infinite, else 0.
"""

import argparse
import collections
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from data_prep.annotations.model import SPLIT_NAMES
from data_prep.build import dropped_lines, stream_line
from data_prep.progress import progress
from data_prep.survey import (
  SplitSurvey,
  StreamSurvey,
  broken_shards,
  survey_split,
  unusual_lengths,
)
from vidcap_jax.data.schema import DataError, Manifest, read_manifest
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary

SHOWN = 5  # Ids shown of a list.


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.inspect',
    description='Prints the splits, streams, lengths and vocabulary of a data set folder, and '
    'what is odd in it. Exit code 1 if a shard is broken or a feature is NaN or infinite.',
  )
  parser.add_argument('directory', metavar='DIR', help='a folder written by data_prep.build')
  parser.add_argument(
    '--verify', action='store_true', help='also compare the checksum of every shard'
  )
  parser.add_argument('--words', type=int, default=20, help='how many frequent words to show')
  args = parser.parse_args(argv)
  try:
    manifest = read_manifest(args.directory)
    shards = sum(len(split.shards) for split in manifest.splits.values())
    faults = broken_shards(
      args.directory,
      manifest,
      checksums=args.verify,
      each=functools.partial(progress, total=shards, label='checking', unit='shards'),
    )
    surveys = {}
    for name, split in manifest.splits.items():
      if name in faults:
        continue
      each = functools.partial(progress, total=split.videos, label=f'reading {name}')
      try:
        surveys[name] = survey_split(args.directory, manifest, name, each=each)
      except DataError as error:
        faults[name] = [str(error)]
  except (DataError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  bad = list(broken(manifest, surveys, faults))
  odd = list(oddities(manifest, surveys))
  for title, lines in (
    (f'Data set {manifest.name}', overview(manifest, verified=args.verify)),
    ('Splits', split_lines(manifest, surveys, faults)),
    ('Streams', stream_lines(manifest, surveys)),
    ('Vocabulary', vocabulary_lines(manifest, surveys, args.words)),
    ('Left out (the manifest names all)', left_out_lines(manifest) or ['nothing']),
    ('Odd', odd or ['nothing']),
    ('Broken', bad or ['nothing']),
  ):
    print(f'{title}\n' + '\n'.join(f'  {line}' for line in lines))
  return 1 if bad else 0


def overview(manifest: Manifest, *, verified: bool) -> list[str]:
  """Hash, versions and the options it was built with."""
  versions = ', '.join(f'{k} {v}' for k, v in manifest.versions.items())
  hidden = ('inputs', 'captions_left_out')
  built = ', '.join(f'{k}={_show(v)}' for k, v in manifest.source.items() if k not in hidden)
  lines = [f'hash {manifest.hash}', f'written by {versions}', f'options {built}']
  if manifest.categories:
    lines.append(f'{manifest.categories} categories')
  if verified:
    lines.append('checksums of all shards compared')
  return lines


def _show(value) -> str:
  if isinstance(value, Mapping):
    return ' '.join(f'{k}={v}' for k, v in value.items())
  return ' '.join(value) if isinstance(value, list) else str(value)


def left_out_lines(manifest: Manifest) -> list[str]:
  """Videos and captions left out, counted by reason."""
  lines = dropped_lines(manifest)
  for reason, videos in manifest.source.get('captions_left_out', {}).items():
    count = sum(videos.values())
    lines.append(f'dropped    {count:>7} captions: {reason}, of {ids(list(videos))}')
  return lines


def split_lines(
  manifest: Manifest, surveys: Mapping[str, SplitSurvey], faults: Mapping[str, Sequence[str]]
) -> list[str]:
  """A table of the splits: videos, captions, their lengths."""
  rows = [('', 'shards', 'videos', 'captions', 'per video', 'words', 'cut', 'said twice')]
  limit = manifest.vocabulary['max_words'] if manifest.vocabulary else None
  for name, split in manifest.splits.items():
    row = (name, str(len(split.shards)), str(split.videos), str(split.captions))
    if name in faults:
      rows.append((*row, 'broken', '', '', ''))
      continue
    survey = surveys[name]
    cut = sum(n > limit for n in survey.words) if limit else 0
    per_video, words = spread(survey.captions.values()), spread(survey.words)
    rows.append((*row, per_video, words, str(cut), str(survey.repeated_captions)))
  lines = table(rows)
  lines.append('lengths are minimum/median/maximum; cut: captions longer than max_words')
  return lines


def stream_lines(manifest: Manifest, surveys: Mapping[str, SplitSurvey]) -> list[str]:
  """Each stream: what it is, and its lengths and values by split."""
  lines = []
  for stream in manifest.streams:
    lines.append(f'{stream.name}: {stream_line(stream)}')
    if stream.sampling:
      sampling = ', '.join(f'{k}={v}' for k, v in stream.sampling.items())
      lines.append(f'  frames chosen by {sampling}')
    if stream.mean:
      mean, std = np.abs(stream.mean), np.asarray(stream.std)
      lines.append(
        f'  training split, per channel: |mean| {mean.min():.3g} to {mean.max():.3g}, '
        f'deviation {std.min():.3g} to {std.max():.3g}, '
        f'{int((std == 0).sum())} channels without any'
      )
    rows = [('', 'videos', 'frames', 'values', 'lacking')]
    for name, survey in surveys.items():
      s = survey.streams[stream.name]
      values = f'{s.lowest:.4g} to {s.highest:.4g}' if s.frames else '-'
      rows.append(
        (name, str(len(s.frames)), spread(s.frames.values()), values, str(len(s.lacking)))
      )
    lines += ['  ' + line for line in table(rows)]
  return lines


def vocabulary_lines(
  manifest: Manifest, surveys: Mapping[str, SplitSurvey], words: int
) -> list[str]:
  """Size, how it was made, coverage by split, the most frequent words."""
  if manifest.vocabulary is None:
    return ['none: built without a train split and without --vocabulary']
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  lines = [
    f'{len(vocabulary)} words, {len(SPECIAL)} of them special; hash {vocabulary.hash}',
    f'tokenizer {vocabulary.tokenizer}, words seen {vocabulary.min_count} times or more, '
    f'captions up to {vocabulary.max_words} words',
  ]
  rows = [('coverage', 'words', 'unknown', 'share known')]
  for name, survey in surveys.items():
    known, total = survey.known
    if total:
      rows.append((name, str(total), str(total - known), f'{known / total:.2%}'))
  lines += table(rows) if len(rows) > 1 else ['no captions to cover']
  counts: collections.Counter[str] = collections.Counter()
  for survey in surveys.values():
    counts.update(survey.counts)
  ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
  top = [f'{word} {n}' for word, n in ordered[:words]]
  return [*lines, 'most frequent: ' + (', '.join(top) or '-')]


def broken(
  manifest: Manifest, surveys: Mapping[str, SplitSurvey], faults: Mapping[str, Sequence[str]]
) -> Iterable[str]:
  """What training cannot be run on."""
  for name, messages in faults.items():
    yield from (f'{name}: {message}' for message in messages)
  for name, survey in surveys.items():
    split = manifest.splits[name]
    captions = len(survey.words)
    if (survey.videos, captions) != (split.videos, split.captions):
      yield (
        f'{name}: {survey.videos} videos with {captions} captions, '
        f'the manifest says {split.videos} with {split.captions}'
      )
    if doubles := survey.videos - len(survey.captions):
      yield f'{name}: {doubles} records have the id of another record'
    for stream in manifest.streams:
      s = survey.streams[stream.name]
      if s.not_finite:
        count = len(s.not_finite)
        yield f'{name}, {stream.name}: {count} videos with NaN or Inf: {ids(s.not_finite)}'
      if s.frames and max(s.frames.values()) > stream.longest:
        yield (
          f'{name}, {stream.name}: {max(s.frames.values())} frames in one video, '
          f'the manifest says {stream.longest} at most'
        )


def oddities(manifest: Manifest, surveys: Mapping[str, SplitSurvey]) -> Iterable[str]:
  """What is worth a look: videos without captions, constant or repeated features, odd lengths."""
  unusual = [name for name in surveys if name not in SPLIT_NAMES]
  if unusual and 'train' not in surveys:
    yield f'no split train, but {", ".join(unusual)}: is a name misspelled?'
  for name, survey in surveys.items():
    if without := [v for v, n in survey.captions.items() if not n]:
      yield f'{name}: {len(without)} videos without captions: {ids(without)}'
    for stream, s in survey.streams.items():
      yield from _odd_features(f'{name}, {stream}', s)
  for stream in [s.name for s in manifest.streams]:
    yield from _shared_features(stream, surveys)
    if all(not s.streams[stream].frames for s in surveys.values()):
      yield f'{stream}: no video has this stream'


def _odd_features(where: str, survey: StreamSurvey) -> Iterable[str]:
  if survey.constant:
    count = len(survey.constant)
    yield f'{where}: {count} videos whose values are all equal: {ids(survey.constant)}'
  if survey.repeated_frames:
    shares = survey.repeated_frames.items()
    worst = sorted(shares, key=lambda item: -item[1][0] / item[1][1])
    shown = [f'{v} ({n} of {total})' for v, (n, total) in worst]
    yield f'{where}: {len(worst)} videos with repeated frames, the most in {ids(shown)}'
  short, long = unusual_lengths(survey.frames)
  for videos, word in ((short, 'short'), (long, 'long')):
    if videos:
      shown = [f'{v} ({survey.frames[v]})' for v in videos]
      yield f'{where}: {len(videos)} videos unusually {word} in frames: {ids(shown)}'


def _shared_features(stream: str, surveys: Mapping[str, SplitSurvey]) -> Iterable[str]:
  """Features that several videos share, within splits and across them."""
  videos: dict[bytes, list[tuple[str, str]]] = collections.defaultdict(list)
  for name, survey in surveys.items():
    for digest, members in survey.streams[stream].digests.items():
      videos[digest] += [(name, member) for member in members]
  groups = [group for group in videos.values() if len(group) > 1]
  across = [group for group in groups if len({name for name, _ in group}) > 1]
  for found, word in ((groups, ''), (across, ' across splits')):
    if found:
      shown = [' = '.join(f'{v} ({name})' for name, v in group[:3]) for group in found]
      count = sum(map(len, found))
      yield f'{stream}: {count} videos share their features with another{word}: {ids(shown)}'


def ids(names: Sequence[str]) -> str:
  """The first few of a list, and how many more there are."""
  more = f' and {len(names) - SHOWN} more' if len(names) > SHOWN else ''
  return ', '.join(names[:SHOWN]) + more


def spread(values: Iterable[int]) -> str:
  """minimum/median/maximum."""
  values = list(values)
  return f'{min(values)}/{np.median(values):g}/{max(values)}' if values else '-'


def table(rows: Sequence[Sequence[str]]) -> list[str]:
  """Aligned columns, the first to the left and the others to the right."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = []
  for first, *rest in rows:
    cells = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)]
    lines.append('  '.join([first.ljust(widths[0]), *cells]).rstrip())
  return lines


if __name__ == '__main__':
  sys.exit(main())
