r"""Extracts features from a folder of video files.

    python -m data_prep.extract --videos=clips/ --out=features/ --uniform=20 \
        --streams=image:efficientnet_lite0,motion:efficientnet_lite0_motion

writes features/image/ID.npy and features/motion/ID.npy for every clips/ID.mp4, and in each folder
a stream.json that says how they were made. Interrupted, it goes on where it stopped when started
again with the same options.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from vidcap_jax.errors import UserError
from vidcap_jax.features import extractors, sampling, video_folder, weights
from vidcap_jax.features.extract_folder import (
  POOLS,
  Results,
  Work,
  carry_out,
  in_pool,
  plan,
  summary,
  usual_pool,
)


class ExtractError(UserError):
  """Options that can't be worked with; says what to change."""


def parse_streams(text: str) -> dict[str, str]:
  """``image:efficientnet_lite0@every=5,…`` as what makes each stream, by its name.

  Raises:
    ExtractError: not of the form NAME:EXTRACTOR[@SAMPLING], with commas between.
  """
  streams: dict[str, str] = {}
  for part in filter(None, text.split(',')):
    name, colon, made_by = part.partition(':')
    if not colon or not re.fullmatch(r'[A-Za-z]\w*', name, re.ASCII):
      raise ExtractError(f'--streams: {part!r} is not of the form NAME:EXTRACTOR[@SAMPLING]')
    if name in streams:
      raise ExtractError(f'--streams: {name!r} is given twice')
    streams[name] = made_by
  if not streams:
    raise ExtractError('--streams: no stream given')
  return streams


def _parser(local: bool) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.extract',
    description='Extracts features from video files, resumably. What is there already is kept.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    allow_abbrev=False,
    epilog=f'extractors:\n{_listing()}\n\n'
    'The exit code is 1 if any video failed; the others are kept.',
  )
  _add_flags(parser)
  if local:
    add = parser.add_argument
    add('--workers', type=int, metavar='N', help='videos worked on at a time (default: the cores)')
    add(
      '--pool',
      choices=POOLS,
      help='what works on them: a file that crashes its process, or fills the memory, costs no '
      'other; threads share one accelerator (default: processes on CPUs, else threads)',
    )
  return parser


def _listing() -> str:
  lines = [
    f'  {name:<28}{e.kind}, {e.channels} channels; {sampling.text_of(e.sampling)}'
    for name, e in extractors.REGISTRY.items()
  ]
  return '\n'.join([*lines, *(f'  {family}/NAME' for family in extractors.FAMILIES)])


def _add_flags(parser: argparse.ArgumentParser) -> None:
  add = parser.add_argument
  add('--videos', required=True, metavar='DIR', help='folder of video files (searched in depth)')
  add('--out', required=True, metavar='DIR', help='folder for NAME/VIDEOID.npy')
  add(
    '--streams',
    default='image:efficientnet_lite0',
    metavar='NAME:EXTRACTOR[@SAMPLING][,…]',
    help='streams to make (default: %(default)s). SAMPLING: uniform=N, every=N or fps=X, and '
    'perhaps +one_in=N or +window=FRAMES/STRIDE; of sound hop=SECONDS; what is not said is as '
    'listed below',
  )
  how = parser.add_mutually_exclusive_group()
  how.add_argument('--uniform', type=int, metavar='N', help='N frames of each video, evenly spread')
  how.add_argument('--every', type=int, metavar='N', help='every N-th frame')
  how.add_argument(
    '--fps',
    type=float,
    metavar='X',
    help='X frames a second; these three are for streams of single frames without a sampling',
  )
  add(
    '--weights',
    default='',
    metavar='NAME=PATH[,…]',
    help=f'weights files of networks that come without (default: looked for in {weights.folder()})',
  )


def _read_flags(args: argparse.Namespace) -> Work:
  weights.give(dict(_pair(part) for part in filter(None, args.weights.split(','))))
  asked = {how: vars(args)[how] for how in sampling.BASES if vars(args)[how] is not None}
  streams = extractors.describe_all(parse_streams(args.streams), asked)
  return plan(video_folder.find_videos(args.videos), streams, args.out)


def _here(work: Work, args: argparse.Namespace) -> Results:
  return in_pool(work, args.workers, args.pool or usual_pool())


def _pair(text: str) -> tuple[str, str]:
  name, equals, path = text.partition('=')
  if not equals or not path:
    raise ExtractError(f'--weights: {text!r} is not of the form NAME=PATH')
  return name, path


def main(argv: Sequence[str] | None = None, spread: Callable[[Work], Results] | None = None) -> int:
  """Entry point; returns the exit code. ``spread`` does the work elsewhere than on this machine."""
  args = _parser(local=spread is None).parse_args(argv)
  try:
    if spread is None and args.workers is not None and args.workers < 1:
      raise ExtractError(f'--workers={args.workers}: at least 1')
    work = _read_flags(args)
    outcome = carry_out(work, spread(work) if spread else _here(work, args))
  except (ValueError, ModuleNotFoundError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    print('interrupted; run the same command again to resume', file=sys.stderr)
    return 130
  print(summary(outcome, args.out))
  return 1 if outcome.failed else 0


if __name__ == '__main__':
  sys.exit(main())
