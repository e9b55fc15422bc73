"""Prints what is in a data set folder, and what is odd about it; shows the same as an HTML page.

    python -m data_prep.inspect data/msrvtt [--verify] [--videos=videos/]

The exit code is 1 if a shard is broken or a feature is NaN or infinite, else 0.
"""

import argparse
import functools
import pathlib
import sys
from collections.abc import Sequence

from data_prep.report import findings, page, thumbnails
from data_prep.report.findings import Findings, Rows
from data_prep.report.survey import broken_shards, survey_split
from vidcap_jax.annotations.splits import read_id_map
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError
from vidcap_jax.progress import progress

PAGE = 'inspect.html'


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  parser = _parser()
  args = parser.parse_args(argv)
  if args.words < 0:
    parser.error(f'--words={args.words}: 0 or more')
  file = pathlib.Path(args.directory) / PAGE if args.html is None else pathlib.Path(args.html)
  try:
    found = survey(args.directory, verify=args.verify, samples=args.samples)
    shown = [s.video_id for split in found.surveys.values() for s in split.samples]
    pictures = None
    if args.videos:
      aliases = read_id_map(args.id_map) if args.id_map else {}
      each = progress(shown, len(shown), 'decoding videos')
      pictures = thumbnails.make(args.videos, each, aliases)
  except (DataError, ModuleNotFoundError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except OSError as error:
    print(f'error: {error.filename}: {error.strerror}', file=sys.stderr)
    return 1
  for section in findings.sections(found, verified=args.verify, words=args.words):
    print(section.title)
    for part in section.parts:
      lines = [part] if isinstance(part, str) else table(part)
      print('\n'.join(f'  {line}' for line in lines))
  if pictures and pictures.notes:
    print('Videos\n' + '\n'.join(f'  {note}' for note in pictures.notes))
  broken = any(findings.broken(found))
  if args.html != '':
    text = page.render(found, verified=args.verify, words=args.words, thumbnails=pictures)
    try:
      file.write_text(text, encoding='utf-8')
      print(f'page {file}', file=sys.stderr)
    except OSError as error:
      print(f'error: {file}: {error.strerror}; see --html', file=sys.stderr)
      return 1
  return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.inspect',
    description='Prints the splits, streams, lengths and vocabulary of a data set folder, and '
    'what is odd in it, and writes the same with histograms, captions and thumbnails as an HTML '
    'page. Exit code 1 if a shard is broken or a feature is NaN or infinite.',
    allow_abbrev=False,
  )
  parser.add_argument('directory', metavar='DIR', help='a folder written by data_prep.build')
  parser.add_argument(
    '--verify', action='store_true', help='also compare the checksum of every shard'
  )
  parser.add_argument('--words', type=int, default=20, help='how many frequent words to list')
  parser.add_argument(
    '--html', metavar='FILE', help=f'the page (default: DIR/{PAGE}); empty for none'
  )
  parser.add_argument(
    '--videos', metavar='DIR', help='folder of video files named by id, for thumbnails'
  )
  parser.add_argument(
    '--id_map', metavar='FILE', help='lines "other_name id": video files may have either name'
  )
  parser.add_argument(
    '--samples', type=int, default=12, metavar='N', help='videos shown of each split (default: 12)'
  )
  return parser


def survey(directory, *, verify: bool, samples: int) -> Findings:
  """Reads a data set folder, one video at a time.

  Args:
    directory: the folder.
    verify: also compare checksums.
    samples: how many videos of each split to keep for a look.

  Raises:
    DataError: no data set. What is wrong with its shards is in the result.
  """
  manifest = read_manifest(directory)
  shards = sum(len(split.shards) for split in manifest.splits.values())
  faults = broken_shards(
    directory,
    manifest,
    checksums=verify,
    each=functools.partial(progress, total=shards, label='checking', unit='shards'),
  )
  surveys = {}
  for name, split in manifest.splits.items():
    if name in faults:
      continue
    each = functools.partial(progress, total=split.videos, label=f'reading {name}')
    try:
      surveys[name] = survey_split(directory, manifest, name, samples=samples, each=each)
    except DataError as error:
      faults[name] = [str(error)]
  return Findings(manifest, surveys, faults)


def table(rows: Rows) -> list[str]:
  """Aligned columns, the first to the left and the others to the right."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = []
  for first, *rest in rows:
    cells = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)]
    lines.append('  '.join([first.ljust(widths[0]), *cells]).rstrip())
  return lines


if __name__ == '__main__':
  sys.exit(main())
