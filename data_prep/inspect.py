"""Prints the contents of a data set folder and what is odd in them, and writes an HTML page.

    python -m data_prep.inspect data/msrvtt [--verify] [--videos=videos/]

The exit code is 1 if a shard is broken or a feature is NaN or infinite, else 0.
"""

import argparse
import functools
import pathlib
import sys
from collections.abc import Sequence

from data_prep.report import page
from data_prep.report.findings import Findings, Rows, broken, sections
from data_prep.report.survey import broken_shards, survey_split
from data_prep.report.thumbnails import make_thumbnails
from vidcap_jax import command_arguments, command_errors
from vidcap_jax.annotations.splits import read_id_map
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.files import check_input
from vidcap_jax.program_name import program_name
from vidcap_jax.progress import progress

PAGE = 'inspect.html'


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  parser = make_parser()
  try:
    args = command_arguments.parse(parser, argv, may_be_empty=('--html',))
    if args.words < 0:
      parser.error(f'--words={args.words}: 0 or more')
    file = pathlib.Path(args.directory) / PAGE if args.html is None else pathlib.Path(args.html)
    check_input('DIR', args.directory, 'the folder of a data set')
    findings = survey(args.directory, verify=args.verify, samples=args.samples)
    thumbnails = None
    if args.videos:
      aliases = read_id_map(args.id_map) if args.id_map else {}
      ids = [s.video_id for split in findings.surveys.values() for s in split.samples]
      each = progress(ids, len(ids), 'decoding videos')
      thumbnails = make_thumbnails(args.videos, each, aliases)
  except (UserError, ModuleNotFoundError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except OSError as error:
    print(f'error: {error.filename}: {error.strerror}', file=sys.stderr)
    return 1
  for section in sections(findings, verified=args.verify, words=args.words):
    print(section.title)
    for part in section.parts:
      lines = [part] if isinstance(part, str) else table(part)
      print('\n'.join(f'  {line}' for line in lines))
  if thumbnails and thumbnails.notes:
    print('Videos\n' + '\n'.join(f'  {note}' for note in thumbnails.notes))
  if args.html != '':
    text = page.render(findings, verified=args.verify, words=args.words, thumbnails=thumbnails)
    try:
      file.write_text(text, encoding='utf-8')
      print(f'page {file}', file=sys.stderr)
    except OSError as error:
      print(f'error: {file}: {error.strerror}; see --html', file=sys.stderr)
      return 1
  return 1 if any(broken(findings)) else 0


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('data_prep.inspect'),
    description='Prints the splits, streams, lengths and vocabulary of a data set folder, and '
    'what is odd in it; writes an HTML page of the same with histograms, captions and thumbnails. '
    'The exit code is 1 if a shard is broken or a feature is NaN or infinite.',
    allow_abbrev=False,
  )
  parser.add_argument('directory', metavar='DIR', help='a folder written by data_prep.build')
  parser.add_argument(
    '--verify', action='store_true', help='also compare the checksum of every shard'
  )
  parser.add_argument('--words', type=int, default=20, help='how many frequent words to list')
  parser.add_argument(
    '--html', metavar='FILE', help=f'the page to write (default: DIR/{PAGE}); empty for none'
  )
  parser.add_argument(
    '--videos', metavar='DIR', help='folder of video files named by id, for thumbnails'
  )
  parser.add_argument(
    '--id_map', metavar='FILE', help='lines "other_name id": video files may have either name'
  )
  parser.add_argument(
    '--samples',
    type=int,
    default=12,
    metavar='N',
    help='videos of each split on the page (default: 12)',
  )
  return parser


def survey(directory, *, verify: bool, samples: int) -> Findings:
  """Reads a data set folder, one video at a time.

  Args:
    directory: the folder.
    verify: also compare checksums.
    samples: how many videos of each split to show on the page.

  Raises:
    DataError: not a data set. Faults in its shards are part of the result.
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
  """The lines of a table: the first column left-aligned, the others right-aligned."""
  widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
  lines = []
  for first, *rest in rows:
    cells = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)]
    lines.append('  '.join([first.ljust(widths[0]), *cells]).rstrip())
  return lines


if __name__ == '__main__':
  sys.exit(main())
