"""What a build did, as lines of text; inspection prints some of the same lines."""

import pathlib

from data_prep.dataset.builder import Report
from vidcap_jax.annotations.splits import three
from vidcap_jax.counts import counted
from vidcap_jax.data.schema import Dropped, Manifest, Stream
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.progress import duration

# Share of values stored as 0, though they are not, from which a note names the stream.
UNDERFLOW_SHARE = 0.001
# Share of known words among the training captions' words below which a note suggests --min_count.
FEW_KNOWN = 0.9


def summary(manifest: Manifest, report: Report, out: str) -> str:
  """What was built, as lines of text."""
  lines = []
  if report.unchanged:
    lines.append(f'{out}: already built from the same inputs, nothing to do')
  for name, split in manifest.splits.items():
    without = report.without_captions[name]
    note = f' ({counted(without, "video")} without captions)' if without else ''
    note += f' ({report.repeated[name]} repeated)' if report.repeated[name] else ''
    counts = f'{counted(split.videos, "video", ">7")}, {counted(split.captions, "caption")}'
    lines.append(f'{name:<10} {counts}{note}')
  lines += dropped_lines(manifest)
  for reason, videos in report.left_out.items():
    count = counted(len(videos), 'caption', '>7')
    lines.append(f'dropped    {count}: {reason} (first: of {videos[0]})')
  lines += [f'note       {note}' for note in report.notes]
  if 'train' in manifest.splits and 'val' not in manifest.splits:
    lines.append(
      'note       no split val: list videos for it in --splits, or train with '
      '--config.data.val_split=NAME to choose the best epoch by another split'
    )
  if manifest.vocabulary:
    vocabulary = Vocabulary.from_dict(manifest.vocabulary)
    shares = [f'{k / n:.1%} of {s}' for s, (k, n) in report.coverage.items() if n]
    covers = f', {", ".join(shares)} covered' if shares else ''
    lines.append(f'vocabulary {len(vocabulary):>7} words{covers}; hash {vocabulary.hash}')
    if vocabulary.leak_note:
      lines.append(f'warning    {vocabulary.leak_note}')
    known, words = report.coverage.get('train', (0, 0))
    if known < FEW_KNOWN * words:
      lines.append(
        f'note       {1 - known / words:.1%} of the words of train are unknown: words that occur '
        f'fewer than {vocabulary.min_count} times are left out; --min_count=1 keeps all'
      )
  else:
    lines.append(
      'vocabulary    none, as there is no split train and no --vocabulary; the data set can be '
      'used for evaluation, but not for training'
    )
  for stream in manifest.streams:
    unused = report.unused[stream.name]
    note = ''
    if unused:
      note = f'; features of {counted(len(unused), "other video")} unused ({three(unused)})'
    lines.append(f'stream     {stream.name}: {stream_line(stream)}{note}')
  notes = [*underflow_notes(manifest), *metric_word_notes(manifest)]
  lines += [f'note       {note}' for note in notes]
  shards = [shard for split in manifest.splits.values() for shard in split.shards]
  size = sum((pathlib.Path(out) / shard.file).stat().st_size for shard in shards)
  reused = f', {report.reused} kept from an interrupted build' if report.reused else ''
  lines.append(
    f'{out}: {size / 2**20:.1f} MiB in {counted(len(shards), "shard")}{reused}; '
    f'hash {manifest.hash}; {duration(report.seconds)}'
  )
  return '\n'.join(lines)


def underflow_notes(manifest: Manifest) -> list[str]:
  """The streams of which many values are too small for the dtype of storage."""
  notes = []
  for stream in manifest.streams:
    counts = [
      c['underflow'][stream.name]
      for c in manifest.coverage.values()
      if stream.name in c.get('underflow', {})
    ]
    nonzero, lost = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    if lost and lost >= UNDERFLOW_SHARE * nonzero:
      notes.append(
        f'stream {stream.name}: {lost} of {nonzero} values ({lost / nonzero:.1%}) that are not 0 '
        f'are too small for {stream.dtype} and stored as 0; --dtype=float32 keeps them'
      )
  return notes


def metric_word_notes(manifest: Manifest) -> list[str]:
  """How many captions of the splits have words that the metrics split otherwise."""
  notes = []
  for split, counts in manifest.coverage.items():
    if found := counts.get('metric_words'):
      words = ', '.join(f'{word} {count}' for word, count in list(found['words'].items())[:5])
      notes.append(
        f'{found["captions"]} of {manifest.splits[split].captions} captions of {split} have words '
        f'that the metrics split otherwise than the vocabulary ({words}); see docs/evaluation.md'
      )
  return notes


def dropped_lines(manifest: Manifest) -> list[str]:
  """Counts of dropped videos by split and reason, with an example; the manifest names all."""
  groups: dict[tuple[str, str], list[Dropped]] = {}
  for video in manifest.dropped:
    # Reasons that name a file are those of unusable features, which are counted together.
    reason = video.reason if video.reason.startswith(('no ', 'in ')) else 'bad features'
    groups.setdefault((video.split, reason), []).append(video)
  lines = []
  for (split, reason), videos in groups.items():
    where = f' of {split}' if split else ''
    example = videos[0].video_id
    if reason == 'bad features':
      example += f': {videos[0].reason}'
    lines.append(
      f'dropped    {counted(len(videos), "video", ">7")}{where}: {reason} (first: {example})'
    )
  return lines


def stream_line(stream: Stream) -> str:
  """A stream in words: kind, shape, dtype, longest video, extractor."""
  words = f'{stream.kind} {stream.axes} {stream.dtype}'
  if stream.kind != 'vector':
    words += f', up to {counted(stream.longest, "frame")}'
  if stream.most_regions:
    words += f' of {counted(stream.most_regions, "region")}'
  if extractor := ' '.join(filter(None, (stream.extractor, stream.version))):
    words += f', by {extractor}'
  return words + (', optional' if stream.optional else '')
