r"""Makes a run of the checkpoint of a PyTorch project, to caption, score and train on with.

    python -m data_prep.import_checkpoint --from=imagecaptioning \
        --weights=log/model-best.pth --infos=log/infos_ID-best.pkl --output=runs/imported
    python -m vidcap_jax.main --mode=predict --checkpoint=runs/imported \
        --inputs=fc=data/cocotalk_fc,att=data/cocotalk_att

The files are read without PyTorch and without running code in them. docs/from-pytorch.md says which
models and options have an equal here.
"""

import argparse
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from etils import epath

from configs import common
from vidcap_jax import command_arguments, command_errors
from vidcap_jax.checkpoints.pytorch import imagecaptioning
from vidcap_jax.checkpoints.pytorch.imported import Imported, Places
from vidcap_jax.checkpoints.pytorch.pickled import load_options
from vidcap_jax.checkpoints.pytorch.run import check_workdir, write_run
from vidcap_jax.errors import DataError, UserError, error_text
from vidcap_jax.features.plain_pickle import PickleError
from vidcap_jax.features.torch_pickle import load_state_dict
from vidcap_jax.files import check_input, check_output
from vidcap_jax.program_name import as_typed, program_name

# Project -> what describes its checkpoints.
PROJECTS: Mapping[str, Callable[..., Imported]] = {'imagecaptioning': imagecaptioning.describe}

_WEIGHTS = 'model.pth, a state dict'
_INFOS = 'infos_ID.pkl of the same training'

PREDICT = 'python -m vidcap_jax.main --mode=predict'


def make_parser() -> argparse.ArgumentParser:
  """The command's arguments."""
  parser = argparse.ArgumentParser(
    prog=program_name('data_prep.import_checkpoint'),
    description='Makes a run of the checkpoint of a PyTorch project: it gives the same logits and '
    'captions.',
    allow_abbrev=False,
  )
  add = parser.add_argument
  add('--from', dest='project', required=True, choices=tuple(PROJECTS), help='the project')
  add(
    '--model',
    default='',
    choices=tuple(imagecaptioning.CAPTION_MODELS),
    help='its model (default: the one in the infos)',
  )
  add('--weights', required=True, metavar='FILE', help=_WEIGHTS)
  add('--infos', required=True, metavar='FILE', help=_INFOS)
  add('--output', '--out', dest='out', required=True, metavar='RUN', help='a new workdir')
  add(
    '--fc_stream',
    default=Places.mean,
    metavar='NAME',
    help='stream of the mean feature (default: %(default)s); the name of --att_stream, if the mean '
    'of the regions was used in its place',
  )
  add(
    '--att_stream',
    default=Places.attended,
    metavar='NAME',
    help='stream of the regions or cells (default: %(default)s)',
  )
  form = parser.add_mutually_exclusive_group()
  form.add_argument(
    '--regions',
    type=int,
    default=Places.regions,
    metavar='N',
    help='most regions of an image (default: %(default)s)',
  )
  form.add_argument('--grid', metavar='14x14', help='rows and columns of cells in place of regions')
  return parser


def _places(args: argparse.Namespace) -> Places:
  """The streams that the flags describe."""
  for flag in ('fc_stream', 'att_stream'):
    if not re.fullmatch(r'[A-Za-z]\w*', vars(args)[flag], re.ASCII):
      raise UserError(
        f'--{flag}={vars(args)[flag]}: a name has letters, digits and underscores, a letter first'
      )
  if args.regions < 1:
    raise UserError(f'--regions={args.regions}: at least 1')
  grid = (0, 0)
  if args.grid is not None:
    if not (sizes := re.fullmatch(r'([1-9]\d*)x([1-9]\d*)', args.grid)):
      raise UserError(f'--grid={args.grid}: not of the form ROWSxCOLUMNS, e.g. 14x14')
    grid = (int(sizes[1]), int(sizes[2]))
  return Places(args.fc_stream, args.att_stream, args.regions, grid)


def _load_weights(path: pathlib.Path) -> dict[str, np.ndarray]:
  """The state dict of ``--weights``; DataError names the flag."""
  try:
    return load_state_dict(path)
  except PickleError as error:
    raise DataError(f'--weights={error}; give {_WEIGHTS}') from None


def _load_infos(path: str) -> dict[str, Any]:
  """The options of ``--infos``; DataError names the flag."""
  try:
    return load_options(path)
  except DataError as error:
    raise DataError(f'--infos={error}; give {_INFOS}') from None


def _report(imported: Imported, folder: epath.Path, out: str) -> str:
  """What was written, and how to use it."""
  decode = imported.decode
  inputs = ','.join(f'{stream.name}=FEATURES' for stream in imported.streams)
  return '\n'.join(
    [
      f'{folder}: {imported.model["name"]}, {len(imported.vocabulary):,} words',
      *(f'  reads stream {s.name}: {s.kind} {s.axes}' for s in imported.streams),
      f'  captions: beam {decode["beam"]}, length_penalty {decode["length_penalty"]}, at most '
      f'{imported.max_words + 1} tokens; change them with --decode=KEY=VALUE',
      *(f'  note: {note}' for note in imported.notes),
      as_typed(f'to caption: {PREDICT} --checkpoint={out} --inputs={inputs}'),
    ]
  )


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  try:
    args = command_arguments.parse(make_parser(), argv)
    check_output('--output', args.out, folder=True)
    check_workdir(epath.Path(args.out))
    check_input('--infos', args.infos, _INFOS, 'file')
    check_input('--weights', args.weights, _WEIGHTS, 'file')
    places = _places(args)
    imported = PROJECTS[args.project](_load_infos(args.infos), args.model, places, args.infos)
    weights = pathlib.Path(args.weights)
    arrays = _load_weights(weights)
    folder = write_run(epath.Path(args.out), common.base(), imported, arrays, weights, args.project)
  except (ValueError, OSError) as error:
    print(f'error: {error_text(error)}', file=sys.stderr)
    return 1
  print(_report(imported, folder, args.out))
  return 0


if __name__ == '__main__':
  sys.exit(main())
