"""Writes the report of an evaluation: a folder of pages that opens from disk without a network."""

import argparse
import functools
import sys
from collections.abc import Sequence

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.program_name import program_name
from vidcap_jax.reporting.settings import ATTENTION, Options

EPILOG = """\
examples:
  vidcap evaluate --checkpoint=runs/mine --split=val      makes the captions that are shown
  vidcap report --run=runs/mine --split=val               then open the page that it prints
  vidcap report --run=runs/mine --videos=clips --compare=runs/other --output=report

Nothing is decoded: captions are those of the last evaluation of the split. Scores of each video
and intervals need the data set, and attention needs the checkpoint too; what is missing is left
out with a note. docs/report.md explains what the pages show."""


def make_parser() -> argparse.ArgumentParser:
  """The command's arguments."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.reporting.command'),
    description=__doc__,
    epilog=EPILOG,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add(
    '--run',
    required=True,
    metavar='RUN',
    help='a workdir, or a folder of results such as RUN/eval/STAGE/SPLIT or --output of evaluate',
  )
  add('--split', metavar='NAME', help='that was evaluated (default: test, or another one that was)')
  add(
    '--videos',
    metavar='DIR',
    help='folder of video files, pictures or folders of frames, named by id (default: no pictures)',
  )
  add(
    '--attention',
    type=int,
    default=ATTENTION,
    metavar='N',
    help='show the attention of at most N videos, the worst, best and most uncertain first; 0: of '
    'none (default: %(default)s)',
  )
  add('--compare', metavar='RUN', help='another run, to be shown beside the first')
  add('--data', metavar='DIR', help='data set folder (default: the one that was evaluated)')
  add(
    '--boxes',
    metavar='STREAM',
    help="stream of the data set with the regions' boxes (default: one of a detector's extractor)",
  )
  add('--frame_rate', metavar='N', help='of videos whose frames are pictures')
  add(
    '--output',
    '--out',
    metavar='DIR',
    help="folder of the report (default: 'report' in the results)",
  )
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  given = command_arguments.parse(make_parser(), arguments)
  if given.attention < 0:
    raise UserError(f'--attention={given.attention}: give a number of videos, 0 for none')
  from vidcap_jax.reporting import evaluations, report  # slow to import, so after --help

  options = Options(
    data=given.data,
    videos=given.videos,
    frame_rate=given.frame_rate,
    attention=given.attention,
    compare=given.compare,
    output=given.output,
    boxes=given.boxes,
  )
  log = functools.partial(print, file=sys.stderr, flush=True)
  print(report.write(evaluations.find(given.run, given.split), options, log))


if __name__ == '__main__':
  main()
