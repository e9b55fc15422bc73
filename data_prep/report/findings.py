"""The contents of a data set, and what is odd or broken in it, as sections of lines and tables.

``data_prep.inspect`` prints them; ``data_prep.report.page`` shows the same in a browser.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from data_prep.report.summary import dropped_lines, metric_word_notes, stream_line, underflow_notes
from data_prep.report.survey import SplitSurvey, StreamSurvey, unusual_lengths
from vidcap_jax.counts import counted
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.data.split_names import SPLIT_NAMES
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary

SHOWN = 5  # ids shown of a list

_LACKS = ('missing', 'bad', 'uncaptioned')  # reasons for dropped videos in the manifest's coverage

Rows = Sequence[Sequence[str]]  # a table; the first row is its header
Part = str | Rows
Surveys = Mapping[str, SplitSurvey]  # of the splits whose shards are intact
Faults = Mapping[str, Sequence[str]]  # of the other splits: what is wrong


@dataclasses.dataclass(frozen=True)
class Findings:
  """The results of reading a data set folder.

  Attributes:
    manifest: as read.
    surveys: split -> its contents, for splits that could be read.
    faults: split -> what is wrong with its files, for the others.
  """

  manifest: Manifest
  surveys: Surveys
  faults: Faults


@dataclasses.dataclass(frozen=True)
class Section:
  """A title, and under it lines and tables."""

  title: str
  parts: Sequence[Part]


def sections(findings: Findings, *, verified: bool, words: int) -> list[Section]:
  """All findings, in the order to print.

  Args:
    findings: in the data set.
    verified: whether checksums were compared.
    words: how many frequent words to list.
  """
  manifest = findings.manifest
  streams = [part for stream in manifest.streams for part in stream_parts(stream, findings.surveys)]
  return [
    Section(f'Data set {manifest.name}', overview(manifest, verified=verified)),
    Section('Splits', split_parts(findings)),
    Section('Streams', streams),
    Section('Coverage', coverage_parts(findings)),
    Section('Vocabulary', vocabulary_parts(manifest, findings.surveys, words)),
    Section('Left out (the manifest names all)', left_out_lines(manifest) or ['nothing']),
    Section('Odd', list(oddities(findings)) or ['nothing']),
    Section('Broken', list(broken(findings)) or ['nothing']),
  ]


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
    count = counted(sum(videos.values()), 'caption', '>7')
    lines.append(f'dropped    {count}: {reason}, of {ids(list(videos))}')
  return lines


def split_parts(findings: Findings) -> list[Part]:
  """A table of the splits: videos, captions, their lengths."""
  rows = [('', 'shards', 'videos', 'captions', 'per video', 'words', 'cut', 'repeated')]
  vocabulary = findings.manifest.vocabulary
  limit = vocabulary['max_words'] if vocabulary else None
  for name, split in findings.manifest.splits.items():
    row = (name, str(len(split.shards)), str(split.videos), str(split.captions))
    if name in findings.faults:
      rows.append((*row, 'broken', '', '', ''))
      continue
    survey = findings.surveys[name]
    cut = sum(n > limit for n in survey.words) if limit else 0
    per_video, words = min_median_max(survey.captions.values()), min_median_max(survey.words)
    rows.append((*row, per_video, words, str(cut), str(survey.repeated_captions)))
  return [rows, 'lengths are minimum/median/maximum; cut: captions longer than max_words']


def stream_parts(stream: Stream, surveys: Surveys) -> list[Part]:
  """A stream: what it is, and its lengths and values by split."""
  lines = [f'{stream.name}: {stream_line(stream)}']
  if stream.sampling:
    sampling = ', '.join(f'{k}={v}' for k, v in stream.sampling.items())
    lines.append(f'frames chosen by {sampling}')
  if stream.mean:
    mean, std = np.abs(stream.mean), np.asarray(stream.std)
    lines.append(
      f'training split, per channel: |mean| {mean.min():.3g} to {mean.max():.3g}, '
      f'deviation {std.min():.3g} to {std.max():.3g}, '
      f'{int((std == 0).sum())} channels without any'
    )
  rows = [('', 'videos', 'frames', 'values', 'lacking')]
  for name, survey in surveys.items():
    s = survey.streams[stream.name]
    values = f'{s.lowest:.4g} to {s.highest:.4g}' if s.frames else '-'
    rows.append(
      (name, str(len(s.frames)), min_median_max(s.frames.values()), values, str(len(s.lacking)))
    )
  return [*lines, rows]


def coverage_parts(findings: Findings) -> list[Part]:
  """For each split: listed videos, those in the data set, reasons for the others, and streams."""
  manifest = findings.manifest
  names = [stream.name for stream in manifest.streams]
  rows = [('', 'listed', 'kept', *_LACKS, *names)]
  for split, part in manifest.splits.items():
    # Manifests of older versions have no counts; those of its records are shown instead.
    counts = manifest.coverage.get(split, {})
    present = counts.get('streams') or _present(findings.surveys.get(split))
    shares = [f'{present[n]} ({present[n] / part.videos:.1%})' if present else '-' for n in names]
    listed, *dropped = (str(counts.get(key, '-')) for key in ('listed', *_LACKS))
    rows.append((split, listed, str(part.videos), *dropped, *shares))
  return [
    rows,
    'missing: without features; bad: with unusable ones; uncaptioned: training videos without a '
    'caption; last columns: kept videos that have each stream',
  ]


def _present(survey: SplitSurvey | None) -> dict[str, int]:
  return {name: len(s.frames) for name, s in survey.streams.items()} if survey else {}


def vocabulary_parts(manifest: Manifest, surveys: Surveys, words: int) -> list[Part]:
  """Size, how it was made, coverage by split, the most frequent words."""
  if manifest.vocabulary is None:
    return ['none: built without a train split and without --vocabulary']
  vocabulary = Vocabulary.from_dict(manifest.vocabulary)
  parts: list[Part] = [
    f'{len(vocabulary)} words, {len(SPECIAL)} of them special; hash {vocabulary.hash}',
    f'tokenizer {vocabulary.tokenizer}, words that occur {vocabulary.min_count} times or more, '
    f'captions up to {vocabulary.max_words} words',
  ]
  if vocabulary.leaked_from:
    parts.append(f'words counted in train, {", ".join(vocabulary.leaked_from)}')
  rows = [('coverage', 'words', 'unknown', 'share known')]
  for name, survey in surveys.items():
    known, total = survey.known
    if total:
      rows.append((name, str(total), str(total - known), f'{known / total:.2%}'))
  parts.append(rows if len(rows) > 1 else 'no captions to cover')
  top = [f'{word} {n}' for word, n in frequent(surveys)[:words]]
  notes = metric_word_notes(manifest)
  return [*parts, 'most frequent: ' + (', '.join(top) or '-'), *notes]


def frequent(surveys: Surveys) -> list[tuple[str, int]]:
  """All words of all splits with their counts, the most frequent first."""
  counts: collections.Counter[str] = collections.Counter()
  for survey in surveys.values():
    counts.update(survey.counts)
  return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def broken(findings: Findings) -> Iterable[str]:
  """Faults that make the data set unusable for training."""
  manifest, surveys = findings.manifest, findings.surveys
  for name, messages in findings.faults.items():
    yield from (f'{name}: {message}' for message in messages)
  for name, survey in surveys.items():
    split = manifest.splits[name]
    captions = len(survey.words)
    if (survey.videos, captions) != (split.videos, split.captions):
      yield (
        f'{name}: {counted(survey.videos, "video")} with {counted(captions, "caption")}, '
        f'the manifest says {split.videos} with {split.captions}'
      )
    if doubles := survey.videos - len(survey.captions):
      yield f'{name}: {counted(doubles, "record")} with the id of another record'
    for stream in manifest.streams:
      s = survey.streams[stream.name]
      if s.not_finite:
        count = counted(len(s.not_finite), 'video')
        yield f'{name}, {stream.name}: {count} with NaN or Inf: {ids(s.not_finite)}'
      if s.frames and max(s.frames.values()) > stream.longest:
        yield (
          f'{name}, {stream.name}: {counted(max(s.frames.values()), "frame")} in one video, '
          f'the manifest says {stream.longest} at most'
        )


def oddities(findings: Findings) -> Iterable[str]:
  """Unusual findings about the vocabulary, captions, features and lengths."""
  manifest, surveys = findings.manifest, findings.surveys
  if manifest.vocabulary and (leak := Vocabulary.from_dict(manifest.vocabulary).leak_note):
    yield leak
  yield from underflow_notes(manifest)
  unusual = [name for name in surveys if name not in SPLIT_NAMES]
  if unusual and 'train' not in surveys:
    yield f'no split train, but {", ".join(unusual)}: is a name misspelled?'
  for name, survey in surveys.items():
    if without := [v for v, n in survey.captions.items() if not n]:
      yield f'{name}: {counted(len(without), "video")} without captions: {ids(without)}'
    for stream, s in survey.streams.items():
      yield from _odd_features(f'{name}, {stream}', s)
  for stream in [s.name for s in manifest.streams]:
    yield from _shared_features(stream, surveys)
    if all(not s.streams[stream].frames for s in surveys.values()):
      yield f'{stream}: no video has this stream'


def _odd_features(where: str, survey: StreamSurvey) -> Iterable[str]:
  if survey.constant:
    count = counted(len(survey.constant), 'video')
    yield f'{where}: {count} whose values are all equal: {ids(survey.constant)}'
  if survey.repeated_frames:
    shares = survey.repeated_frames.items()
    worst = sorted(shares, key=lambda item: -item[1][0] / item[1][1])
    shown = [f'{v} ({n} of {total})' for v, (n, total) in worst]
    yield f'{where}: {counted(len(worst), "video")} with repeated frames, the most in {ids(shown)}'
  short, long = unusual_lengths(survey.frames)
  for videos, word in ((short, 'short'), (long, 'long')):
    if videos:
      shown = [f'{v} ({survey.frames[v]})' for v in videos]
      yield f'{where}: {counted(len(videos), "video")} unusually {word} in frames: {ids(shown)}'


def _shared_features(stream: str, surveys: Surveys) -> Iterable[str]:
  """Features that several videos share, within splits and across them."""
  videos: dict[bytes, list[tuple[str, str]]] = collections.defaultdict(list)
  for name, survey in surveys.items():
    for digest, members in survey.streams[stream].digests.items():
      videos[digest] += [(name, member) for member in members]
  groups = [group for group in videos.values() if len(group) > 1]
  across = [group for group in groups if len({name for name, _ in group}) > 1]
  for shared, word in ((groups, ''), (across, ' across splits')):
    if shared:
      shown = [' = '.join(f'{v} ({name})' for name, v in group[:3]) for group in shared]
      count = sum(map(len, shared))
      yield f'{stream}: {count} videos share their features with another{word}: {ids(shown)}'


def ids(names: Sequence[str]) -> str:
  """The first few of a list, and how many more there are."""
  more = f' and {len(names) - SHOWN} more' if len(names) > SHOWN else ''
  return ', '.join(names[:SHOWN]) + more


def min_median_max(values: Iterable[int]) -> str:
  """minimum/median/maximum of values, as text."""
  values = list(values)
  return f'{min(values)}/{np.median(values):g}/{max(values)}' if values else '-'
