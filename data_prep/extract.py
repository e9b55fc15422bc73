r"""Extracts features from a folder of video files, folders of frames, or pictures.

    python -m data_prep.extract --videos=clips/ --output=features/ --uniform=20 \
        --streams=image:efficientnet_lite0,motion:efficientnet_lite0_motion

writes features/image/ID.npy and features/motion/ID.npy for every clips/ID.mp4, and in each folder
a stream.json with how they were made. Run again with the same options after an interruption, it
resumes.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.features import extractors, sampling, video_folder, weights
from vidcap_jax.features.extract_folder import (
  POOLS,
  ExtractionPlan,
  Results,
  collect,
  default_pool,
  plan_extraction,
  run_jobs,
  summary,
)
from vidcap_jax.files import check_input, check_output
from vidcap_jax.program_name import program_name

JobRunner = Callable[[ExtractionPlan], Results]  # extracts the jobs of a plan, e.g. elsewhere


class ExtractError(UserError):
  """Wrong options; says what to change."""


def parse_streams(text: str) -> dict[str, str]:
  """Parses ``image:efficientnet_lite0@every=5,…`` into stream name -> EXTRACTOR[@SAMPLING].

  Raises:
    ExtractError: not of the form NAME:EXTRACTOR[@SAMPLING][,…].
  """
  streams: dict[str, str] = {}
  for part in filter(None, text.split(',')):
    name, colon, extractor = part.partition(':')
    if not colon or not re.fullmatch(r'[A-Za-z]\w*', name, re.ASCII):
      raise ExtractError(f'--streams: {part!r} is not of the form NAME:EXTRACTOR[@SAMPLING]')
    if name in streams:
      raise ExtractError(f'--streams: {name!r} is given twice')
    streams[name] = extractor
  if not streams:
    raise ExtractError('--streams: no stream given')
  return streams


def make_parser(local: bool = True) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('data_prep.extract'),
    description='Extracts features from video files. Features that exist are kept, so that the '
    'same command resumes after an interruption.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
    epilog=f'extractors:\n{_listing()}\n\n'
    'The exit code is 1 if any video failed; the features of the others are written.',
  )
  _add_flags(parser)
  if local:
    add = parser.add_argument
    add(
      '--workers',
      type=int,
      metavar='N',
      help='videos extracted at a time (default: one a core, at most 8)',
    )
    add(
      '--pool',
      choices=POOLS,
      help='processes: if one crashes or runs out of memory, only its video fails; threads: all '
      'share one accelerator (default: processes on CPUs, else threads)',
    )
  return parser


def _listing() -> str:
  lines = [
    f'  {name:<28}{e.kind}, {e.channels} channels; {sampling.text_of(e.sampling)}'
    for name, e in extractors.REGISTRY.items()
  ]
  coarser = '  GRID and a number, as efficientnet_lite0_grid1: means of that many rows of its cells'
  return '\n'.join([*lines, *(f'  {family}/NAME' for family in extractors.FAMILIES), coarser])


def _add_flags(parser: argparse.ArgumentParser) -> None:
  add = parser.add_argument
  add(
    '--videos',
    required=True,
    metavar='DIR|LIST',
    help='folder (searched in depth) of video files, of pictures, and of folders with the frames '
    'of a video as pictures; or a text file with a line PATH or ID<TAB>PATH for each',
  )
  add(
    '--frame_rate',
    metavar='N',
    help='frames a second of videos whose frames are pictures; needed for fps=X',
  )
  add(
    '--pictures',
    choices=video_folder.PICTURES,
    default='auto',
    help='pictures are the frames of a video, single pictures (videos of one frame), or ignored '
    '(default: frames, if their names are numbered and they are in a folder below DIR; single '
    'pictures in DIR itself)',
  )
  add('--output', '--out', required=True, metavar='DIR', help='folder for NAME/VIDEOID.npy')
  add(
    '--streams',
    default='image:efficientnet_lite0',
    metavar='NAME:EXTRACTOR[@SAMPLING][,…]',
    help='streams to make (default: %(default)s). SAMPLING: uniform=N, every=N or fps=X, and '
    'optionally +one_in=N or +window=FRAMES/STRIDE; for sound hop=SECONDS; defaults are listed '
    'below',
  )
  frames = parser.add_mutually_exclusive_group()
  frames.add_argument(
    '--uniform', type=int, metavar='N', help='N evenly spaced frames of each video'
  )
  frames.add_argument('--every', type=int, metavar='N', help='every N-th frame')
  frames.add_argument(
    '--fps',
    type=float,
    metavar='X',
    help='X frames a second; --uniform, --every and --fps apply to streams of single frames that '
    'have no sampling of their own',
  )
  add(
    '--weights',
    default='',
    metavar='NAME=PATH[,…]',
    help=f'weights files of networks (default: found in {weights.folder()})',
  )


def _plan(args: argparse.Namespace) -> ExtractionPlan:
  check_input('--videos', args.videos, 'a folder, a list or a file')
  check_output('--output', args.output, folder=True)
  weights.set_paths(dict(_pair(part) for part in filter(None, args.weights.split(','))))
  given = {base: vars(args)[base] for base in sampling.BASES if vars(args)[base] is not None}
  streams = extractors.describe_all(parse_streams(args.streams), given)
  rate = video_folder.parse_frame_rate(args.frame_rate)
  videos = video_folder.find_videos(args.videos, video_folder.PictureRules(args.pictures, rate))
  if kinds := video_folder.describe(videos):
    print(f'{args.videos}: {kinds}')
  return plan_extraction(videos, streams, args.output)


def _pair(text: str) -> tuple[str, str]:
  name, equals, path = text.partition('=')
  if not equals or not path:
    raise ExtractError(f'--weights: {text!r} is not of the form NAME=PATH')
  return name, path


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None, run_elsewhere: JobRunner | None = None) -> int:
  """Entry point; returns the exit code.

  Args:
    argv: arguments of the command line.
    run_elsewhere: runs the jobs in place of this machine's processes or threads.
  """
  try:
    args = command_arguments.parse(make_parser(local=run_elsewhere is None), argv)
    if run_elsewhere is None and args.workers is not None and args.workers < 1:
      raise ExtractError(f'--workers={args.workers}: at least 1')
    plan = _plan(args)
    if run_elsewhere:
      results = run_elsewhere(plan)
    else:
      results = run_jobs(plan, args.workers, args.pool or default_pool())
    outcome = collect(plan, results)
  except BrokenPipeError:  # of stdout
    raise
  except (ValueError, ModuleNotFoundError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('interrupted; run the same command again to resume', file=sys.stderr)
    return 130
  print(summary(outcome, args.output))
  return 1 if outcome.failed else 0


if __name__ == '__main__':
  sys.exit(main())
