"""What the quickstart learned: CIDEr over that of a constant caption, and attributes named right.

  python -m benchmarks.quickstart --workdir=/tmp/quickstart [--json=FILE]

Goals: 80 % of the test captions name colour, shape, action and direction right, in combinations
that training has not seen; CIDEr is 3 times that of the best constant caption, and falls under 1.2
times it when videos swap their features.
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Sequence

import benchmarks
from benchmarks import swapped_features
from data_prep.synthetic import clips, shapes
from vidcap_jax import command_errors
from vidcap_jax.errors import UserError


def measure(workdir: str) -> list[benchmarks.Row]:
  """The rows of the workdir of a finished quickstart.

  Raises:
    UserError: the workdir has no results.
  """
  results = pathlib.Path(workdir, 'eval', 'test')
  if not (results / 'metrics.json').is_file():
    raise UserError(f'{results}: no results; run configs/quickstart.py with --workdir={workdir}')
  scores = json.loads((results / 'metrics.json').read_text())
  captions = json.loads((results / 'captions.json').read_text())
  facts = clips.read_facts(scores['data']['dir'])
  rows = []
  ratio = scores['CIDEr'] / scores['constant_CIDEr']
  rows.append(benchmarks.Row('CIDEr', scores['CIDEr'], ratio=ratio, goal=3.0, met=ratio >= 3))
  for attribute in shapes.ATTRIBUTES:
    correct = [
      shapes.named(c['caption'])[attribute] == facts[c['video_id']][attribute] for c in captions
    ]
    share = sum(correct) / len(correct)
    rows.append(benchmarks.Row(attribute, share, goal=0.8, met=share >= 0.8))
  return rows + swapped_features.measure(workdir, None, 'test')


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if a goal is missed."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.quickstart',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('--workdir', required=True, metavar='DIR', help='of configs/quickstart.py')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  rows = measure(args.workdir)
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
