r"""Data sets with known answers, one for each claim about the models.

    python -m data_prep.synthetic.probes --probe=object --output=DIR --seed=0

writes DIR/features, DIR/captions.jsonl, DIR/truth.json (the answers, and where in the
features they are visible) and the data set itself, DIR/dataset. ``probe_clips.py`` describes the
clips.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from data_prep.dataset.builder import Options, build
from data_prep.synthetic.probe_clips import PROBES, SIZES, clips
from data_prep.synthetic.recipe import check_recipe
from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.files import write_text

TRUTH = 'truth.json'
ANNOTATIONS = 'captions.jsonl'
DATA_SET = 'dataset'
MAX_WORDS = 8  # of a caption
_VERSION = 2  # increased whenever the clips of a seed change


def prepare(
  directory: str | pathlib.Path, name: str, seed: int = 0, sizes: Mapping[str, int] = SIZES
) -> str:
  """Writes a probe's data set and its truth; returns the data set's folder.

  A call resumes after one that was killed, and returns at once if the folder is finished.

  Raises:
    DataError: an unknown probe, or the folder holds something else.
  """
  directory = pathlib.Path(directory)
  clips_of_splits = clips(name, seed, sizes)
  recipe = {'version': _VERSION, 'probe': name, 'seed': seed, 'sizes': dict(sizes)}
  check_recipe(directory, recipe, 'data_prep.synthetic.probes')
  if (directory / TRUTH).is_file():  # written last
    return str(directory / DATA_SET)
  rows, truth = [], {}
  for stream in PROBES[name].kinds:
    (directory / 'features' / stream).mkdir(parents=True, exist_ok=True)
  for split, part in clips_of_splits.items():
    for i, clip in enumerate(part):
      video_id = f'{split}{i}'
      for stream, array in clip.features.items():
        np.save(directory / 'features' / stream / f'{video_id}.npy', array.astype(np.float16))
      rows.append({'video_id': video_id, 'split': split, 'caption': clip.caption})
      answers = [dataclasses.asdict(answer) for answer in clip.answers]
      truth[video_id] = {'split': split, 'caption': clip.caption, 'answers': answers}
  write_text(directory / ANNOTATIONS, ''.join(json.dumps(row) + '\n' for row in rows))
  build(
    Options(
      form='jsonl',
      annotations=(str(directory / ANNOTATIONS),),
      features={stream: str(directory / 'features' / stream) for stream in PROBES[name].kinds},
      kinds=PROBES[name].kinds,
      out=str(directory / DATA_SET),
      name=f'probe_{name}',
      min_count=1,
      max_words=MAX_WORDS,
      overwrite=True,  # after an interrupted call
    )
  )
  write_text(directory / TRUTH, json.dumps(truth) + '\n')
  return str(directory / DATA_SET)


def read_truth(data_set: str | pathlib.Path) -> dict[str, dict]:
  """What ``prepare`` planted: video id -> split, caption and answers, as in ``Answer``.

  Raises:
    DataError: not a data set made by ``prepare``.
  """
  path = pathlib.Path(data_set).resolve().parent / TRUTH
  if not path.is_file():
    raise DataError(f'{path}: no such file; {data_set} was not made by data_prep.synthetic.probes')
  return json.loads(path.read_text())


@command_errors.exit_on_closed_pipe()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; returns the exit code."""
  parser = argparse.ArgumentParser(
    prog='python -m data_prep.synthetic.probes',
    description='Makes clips with known answers and builds a data set of them.',
    formatter_class=argparse.RawDescriptionHelpFormatter,
    epilog='\n'.join(f'{name:8} {probe.claim}' for name, probe in PROBES.items()),
  )
  add = parser.add_argument
  add('--probe', required=True, metavar='NAME', help=', '.join(PROBES))
  about = 'folder for features, truth and data set'
  add('--output', '--out', required=True, metavar='DIR', help=about)
  add('--seed', type=int, default=0, help='of prototypes and clips (default: %(default)s)')
  try:
    args = command_arguments.parse(parser, argv)
    data_set = prepare(args.output, args.probe, args.seed)
  except (UserError, OSError) as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  print(f'{data_set}: ready; --config.data.dir={data_set} trains on it')
  return 0


if __name__ == '__main__':
  sys.exit(main())
