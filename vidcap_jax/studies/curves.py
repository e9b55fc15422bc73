"""Draws learning curves: the scores of runs while they trained.

  vidcap studies curves --runs=runs/a,runs/b --output=curves.png
  vidcap studies curves --runs=runs/seeds --metrics=CIDEr,BLEU_4 --output=curves.svg

There is a panel for each metric and a line for each run, with its stages one after another. A
folder of runs, such as that of ``--config.seeds``, means all of them.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output
from vidcap_jax.program_name import program_name
from vidcap_jax.studies.drawing import figure
from vidcap_jax.training.metric_log import read_metric_log

METRICS = ('CIDEr', 'BLEU_4')


def workdirs(names: Sequence[str]) -> list[pathlib.Path]:
  """The workdirs among the names, and those in the folders among them.

  Raises:
    UserError: a name is neither.
  """
  runs = []
  for name in names:
    path = pathlib.Path(name)
    inside = sorted(journal.parent for journal in path.glob('*/metrics.jsonl'))
    own = [path] if (path / 'metrics.jsonl').is_file() else inside
    if not own:
      raise UserError(f'--runs={name}: neither a workdir nor a folder of them (no metrics.jsonl)')
    runs += own
  return runs


def curve(records: Sequence[dict], kind: str, metric: str) -> list[tuple[int, float, str]]:
  """(steps since the start of the run, value, stage) of every record of a kind with a metric."""
  points, before, stage, last = [], 0, '', 0
  for record in records:
    if record['stage'] != stage:
      before, stage = before + last, record['stage']
    last = record['step']
    if record['kind'] == kind and record.get(metric) is not None:
      points.append((before + last, record[metric], stage))
  return points


def is_recorded(runs: Sequence[pathlib.Path], kind: str, metric: str) -> bool:
  """Whether a run has a metric of a kind."""
  return any(curve(read_metric_log(run), kind, metric) for run in runs)


def draw(runs: Sequence[pathlib.Path], panels: Sequence[tuple[str, str]], out: str) -> None:
  """Writes the picture, in the format of the file's suffix.

  Args:
    runs: workdirs.
    panels: the kind ('train' or the name of a split) and the metric of each.
    out: the file.

  Raises:
    UserError: no run has a metric; the message lists the known ones.
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  picture = figure(figsize=(5.5 * len(panels), 4))
  journals = {run: read_metric_log(run) for run in runs}
  for axes, (kind, metric) in zip(picture.subplots(1, len(panels), squeeze=False)[0], panels):
    curves = {run: curve(records, kind, metric) for run, records in journals.items()}
    if not any(curves.values()):
      known = {k for records in journals.values() for r in records if r['kind'] == kind for k in r}
      raise UserError(
        f'no run has {metric!r} of {kind!r}; known: '
        f'{", ".join(sorted(known - {"stage", "step", "kind"})) or "nothing"}'
      )
    for run, points in curves.items():
      if points:
        axes.plot(
          *zip(*((step, value) for step, value, _ in points)), marker='.', label=run.absolute().name
        )
    _mark_stages(axes, [points for points in curves.values() if points])
    axes.set(xlabel='step', title=f'{metric}, {kind}')
    axes.grid(alpha=0.3)
    axes.legend()
  picture.savefig(out, dpi=150)


def _mark_stages(axes: Any, curves: Sequence[Sequence[tuple[int, float, str]]]) -> None:
  """A dashed line where the first run's next stage begins, with its name."""
  points = curves[0]
  for (step, _, stage), (_, _, after) in zip(points, points[1:]):
    if after != stage:
      axes.axvline(step, color='grey', linestyle='--', linewidth=1)
      axes.annotate(f' {after}', (step, 0.02), xycoords=('data', 'axes fraction'), color='grey')


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.curves'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  split = lambda text: text.split(',')  # noqa: E731
  add = parser.add_argument
  add('--runs', required=True, type=split, metavar='DIR,…', help='workdirs or folders of them')
  add(
    '--metrics', type=split, default=METRICS, metavar='NAME,…', help=f'default {",".join(METRICS)}'
  )
  add('--kind', default='val', help="a split's scores, or train (loss, reward …); default val")
  add('--output', '--out', dest='out', required=True, metavar='FILE', help='.png, .pdf or .svg')
  return parser


def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = make_parser().parse_args(arguments)
  try:
    check_output('--output', options.out)
    panels = [(options.kind, metric) for metric in options.metrics]
    draw(workdirs(options.runs), panels, options.out)
  except (UserError, OSError, ValueError, ModuleNotFoundError) as error:
    sys.exit(f'error: {error}')


if __name__ == '__main__':
  main()
