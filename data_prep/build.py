"""Builds a data set folder from annotations and features.

    python -m data_prep.build --format=msrvtt --annotations=train_val_videodatainfo.json \\
        --features=image=features/ --splits=splits.json --missing=skip --out=data/msrvtt

Interrupted, it goes on where it stopped when started again with the same options.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Sequence

from data_prep.dataset.builder import Report, ShardBuilder, build
from data_prep.dataset.options import Options
from vidcap_jax import annotations
from vidcap_jax.annotations.published import NUMBERED
from vidcap_jax.annotations.splits import three
from vidcap_jax.data.schema import Dropped, Manifest, Stream
from vidcap_jax.data.vocabulary import TOKENIZERS, Vocabulary
from vidcap_jax.errors import DataError
from vidcap_jax.progress import duration

# Share of the training captions' words below which it is said that many are unknown.
FEW_KNOWN = 0.9


def main(argv: Sequence[str] | None = None, build_shards: ShardBuilder | None = None) -> int:
  """Entry point; returns the exit code. ``build_shards``: as of ``builder.build``."""
  args = _parser().parse_args(argv)
  try:
    manifest, report = build(_options(args), build_shards)
  except DataError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('interrupted; the same command goes on from here', file=sys.stderr)
    return 130
  except OSError as error:
    print(f'error: {error.filename or args.out}: {error.strerror or error}', file=sys.stderr)
    return 1
  print(summary(manifest, report, args.out))
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.build',
    description='Builds a data set folder (ArrayRecord shards and a manifest) from annotations '
    'and features. A build that was interrupted goes on when started again.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
    epilog="""examples:
  own data, one caption a row, columns video_id, caption, split:
    --format=csv --annotations=clips.csv --features=image=features/ --out=data/clips
  MSVD with features named by YouTube id, two streams, one of which a video may lack:
    --format=msvd --annotations=msvd/ --id_map=youtube_mapping.txt \\
    --features=image=resnet/,audio=vggish.h5 --optional=audio --out=data/msvd
  a test set for a model that was trained elsewhere:
    --format=jsonl --annotations=new.jsonl --split=test --vocabulary=data/clips \\
    --features=image=new_features/ --out=data/new""",
  )
  add = parser.add_argument
  add(
    '--format',
    required=True,
    type=_annotation_form,
    metavar='NAME',
    help=f'form of the annotations: {", ".join(annotations.FORMATS)}, or package.module:read',
  )
  add('--annotations', required=True, metavar='FILE[,FILE]', help='annotation files (or folder)')
  add(
    '--features',
    required=True,
    action='append',
    metavar='NAME=PATH[,NAME=PATH]',
    help='named streams: a folder of ID.npy (.npz, .pkl, .pth), an .h5, .pkl, .pth or .npz file of '
    'all videos, WebDataset .tar files, an LMDB store or a TFDS folder',
  )
  add('--out', required=True, metavar='DIR', help='folder to write, of any name')
  add(
    '--splits',
    metavar='FILE[,FILE]|NAME',
    help="instead of the annotation's splits: JSON {split: [ids]}; lists of ids named by split, "
    f'text or CSV; or the published ones of {" or ".join(NUMBERED)}, by number',
  )
  add('--split', metavar='NAME', help='put all videos into this one split')
  add('--language', metavar='CODE', help='which captions to read (vatex: en or zh)')
  add(
    '--counts',
    choices=('fail', 'warn'),
    default='fail',
    help='what a published split with another number of videos than it should have is '
    '(default: fail)',
  )
  add(
    '--missing',
    choices=('fail', 'skip'),
    default='fail',
    help='what becomes of videos without features (default: fail, naming them; skip leaves them '
    'out, counted and named in the manifest)',
  )
  add(
    '--bad',
    choices=('fail', 'skip'),
    help='what becomes of videos with unusable features (default: as --missing)',
  )
  _add_stream_flags(add)
  add('--dtype', choices=('float16', 'float32'), default='float16', help='of stored features')
  add('--id_map', metavar='FILE', help='lines "other_name id": features may have either name')
  default = {f.name: f.default for f in dataclasses.fields(Options)}
  add(
    '--min_count',
    type=int,
    metavar='N',
    help=f'fewest occurrences of a word in the vocabulary (default: {default["min_count"]})',
  )
  add(
    '--max_words',
    type=int,
    metavar='N',
    help='longest caption in words that is learned, longer ones are cut '
    f'(default: {default["max_words"]})',
  )
  add(
    '--tokenizer',
    choices=TOKENIZERS,
    help='how captions become words (default: ptb_like, or by_character for --language=zh)',
  )
  add(
    '--vocabulary',
    metavar='FILE|DIR',
    help='take this vocabulary, or that of a data set, as it is, instead of making one',
  )
  add(
    '--name',
    help="of the data set, which its files' names begin with: small letters, digits and "
    'underscores, first a letter (default: made of the name of --out, which may be any)',
  )
  add('--shard_mb', type=float, default=256, help='size of a shard in MiB, about')
  add('--overwrite', action='store_true', help='replace a data set built from other inputs')
  return parser


def _annotation_form(name: str) -> str:
  try:
    annotations.find(name)
  except DataError as error:
    raise argparse.ArgumentTypeError(str(error)) from None
  return name


def _add_stream_flags(add) -> None:
  add('--optional', default='', metavar='NAME[,NAME]', help='streams that a video may lack')
  add(
    '--kinds',
    default='',
    metavar='NAME=KIND[,…]',
    help='vector, sequence, grid or regions; otherwise told from the number of axes (1: vector, '
    '2: sequence, 3: regions, 4: grid)',
  )
  add(
    '--layout',
    default='',
    metavar='NAME=AXES[,…]',
    help='order of axes: C, TC, CT, 1TC, TNC, THWC, TCHW … (T frames, C channels, N regions, H W '
    'rows and columns, 1 an axis of size 1); default by number of axes: C, TC, TNC, THWC',
  )
  add(
    '--rows',
    default='',
    metavar='NAME=ID[,…]',
    help='of an .h5 table without ids: the id of its first row (video0); the next are counted up',
  )
  add(
    '--readers',
    default='',
    metavar='NAME=MODULE:CLASS[,…]',
    help='features of a form of your own: the class that reads them (docs/extending.md)',
  )
  add('--keys', default='', metavar='NAME=KEY[,…]', help='array of a video that has several')
  add(
    '--match',
    metavar='RULE[,RULE]',
    help='how names of features and videos may differ: path, extension, case, prefix:TEXT, none '
    '(default: path,extension)',
  )
  add(
    '--max_frames',
    default='',
    metavar='NAME=N[,…]',
    help='of more frames, keep N evenly spaced ones, the first and the last among them',
  )
  add(
    '--blocks',
    default='',
    metavar='NAME=N[,…]',
    help='streams on one clock, such as the layers of a 3D network: frames of each in one unit of '
    'it; --max_frames then keeps the same whole units of all of them',
  )
  add(
    '--max_regions',
    default='',
    metavar='NAME=N[,…]',
    help='of more regions, keep the N with the highest scores, or the first N',
  )
  add(
    '--align',
    default='',
    metavar='NAME+NAME=POLICY[,…]',
    help='streams of equal length; where they differ: error, truncate or resample to the shortest',
  )


def _options(args: argparse.Namespace) -> Options:
  # What was not given is left to the defaults of Options.
  values = {name: value for name, value in vars(args).items() if value is not None}
  own = [name for name in ('min_count', 'max_words', 'tokenizer') if name in values]
  if args.vocabulary and own:
    raise DataError(f'--vocabulary brings its own {", ".join(own)}; leave --{own[0]} out')
  if 'match' in values:
    values['match'] = tuple(rule for rule in values['match'].split(',') if rule not in ('', 'none'))
  return Options(
    form=values.pop('format'),
    annotations=_paths(values.pop('annotations')),
    features=_pairs('--features', ','.join(values.pop('features'))),
    kinds=_pairs('--kinds', values.pop('kinds')),
    layouts=_pairs('--layout', values.pop('layout')),
    keys=_pairs('--keys', values.pop('keys')),
    rows=_pairs('--rows', values.pop('rows')),
    readers=_pairs('--readers', values.pop('readers')),
    blocks=_numbers('--blocks', values.pop('blocks')),
    max_frames=_numbers('--max_frames', values.pop('max_frames')),
    max_regions=_numbers('--max_regions', values.pop('max_regions')),
    align=_pairs('--align', values.pop('align')),
    optional=tuple(filter(None, values.pop('optional').split(','))),
    **values,
  )


def _paths(text: str) -> tuple[str, ...]:
  # A comma may be part of a file's name.
  return (text,) if pathlib.Path(text).exists() else tuple(filter(None, text.split(',')))


def _pairs(option: str, text: str) -> dict[str, str]:
  pairs: dict[str, str] = {}
  for part in filter(None, text.split(',')):
    name, equals, value = part.partition('=')
    if not equals or not value:
      raise DataError(f'{option}: {part!r} is not of the form NAME=VALUE')
    if name in pairs:
      raise DataError(f'{option}: {name!r} is given twice')
    pairs[name] = value
  return pairs


def _numbers(option: str, text: str) -> dict[str, int]:
  numbers = {}
  for name, value in _pairs(option, text).items():
    if not value.isdecimal():
      raise DataError(f'{option}: {name}={value}: not a whole number')
    numbers[name] = int(value)
  return numbers


def summary(manifest: Manifest, report: Report, out: str) -> str:
  """What was built, for people."""
  lines = []
  if report.unchanged:
    lines.append(f'{out}: built from the same inputs already, nothing to do')
  for name, split in manifest.splits.items():
    without = report.without_captions[name]
    note = f' ({without} videos without captions)' if without else ''
    note += f' ({report.repeated[name]} said twice)' if report.repeated[name] else ''
    lines.append(f'{name:<10} {split.videos:>7} videos, {split.captions} captions{note}')
  lines += dropped_lines(manifest)
  for reason, videos in report.left_out.items():
    lines.append(f'dropped    {len(videos):>7} captions: {reason} (first: of {videos[0]})')
  lines += [f'note       {note}' for note in report.notes]
  if 'train' in manifest.splits and 'val' not in manifest.splits:
    lines.append(
      'note       no split val: list videos for it in --splits, or have training choose the best '
      'epoch by another split, --config.data.val_split=NAME'
    )
  if manifest.vocabulary:
    vocabulary = Vocabulary.from_dict(manifest.vocabulary)
    shares = [f'{k / n:.1%} of {s}' for s, (k, n) in report.coverage.items() if n]
    covers = f', {", ".join(shares)} covered' if shares else ''
    lines.append(f'vocabulary {len(vocabulary):>7} words{covers}; hash {vocabulary.hash}')
    known, words = report.coverage.get('train', (0, 0))
    if known < FEW_KNOWN * words:
      lines.append(
        f'note       {1 - known / words:.1%} of the words of train are unknown: words seen fewer '
        f'than {vocabulary.min_count} times are left out; --min_count=1 keeps all'
      )
  else:
    lines.append(
      'vocabulary    none: there is no split train, and no --vocabulary given; such a data set can '
      'be evaluated, but not trained on'
    )
  for stream in manifest.streams:
    unused = report.unused[stream.name]
    note = f'; features of {len(unused)} other videos unused ({three(unused)})' if unused else ''
    lines.append(f'stream     {stream.name}: {stream_line(stream)}{note}')
  shards = [shard for split in manifest.splits.values() for shard in split.shards]
  size = sum((pathlib.Path(out) / shard.file).stat().st_size for shard in shards)
  reused = f', {report.reused} kept from an interrupted build' if report.reused else ''
  lines.append(
    f'{out}: {size / 2**20:.1f} MiB in {len(shards)} shards{reused}; hash {manifest.hash}; '
    f'{duration(report.seconds)}'
  )
  return '\n'.join(lines)


def dropped_lines(manifest: Manifest) -> list[str]:
  """Videos left out, counted by split and reason, with an example; the manifest names them all."""
  groups: dict[tuple[str, str], list[Dropped]] = {}
  for video in manifest.dropped:
    # A reason that names a file is a bad file's; those are counted together.
    reason = video.reason if video.reason.startswith(('no ', 'in ')) else 'bad features'
    groups.setdefault((video.split, reason), []).append(video)
  lines = []
  for (split, reason), videos in groups.items():
    where = f' of {split}' if split else ''
    example = videos[0].video_id
    if reason == 'bad features':
      example += f': {videos[0].reason}'
    lines.append(f'dropped    {len(videos):>7} videos{where}: {reason} (first: {example})')
  return lines


def stream_line(stream: Stream) -> str:
  """A stream in words: kind, shape, dtype, longest, where from."""
  words = f'{stream.kind} {stream.axes} {stream.dtype}'
  if stream.kind != 'vector':
    words += f', up to {stream.longest} frames'
  if stream.most_regions:
    words += f' of {stream.most_regions} regions'
  if made_by := ' '.join(filter(None, (stream.extractor, stream.version))):
    words += f', by {made_by}'
  return words + (', optional' if stream.optional else '')


if __name__ == '__main__':
  sys.exit(main())
