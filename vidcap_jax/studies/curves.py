"""Draws learning curves: the scores of runs while they trained.

  vidcap studies curves --runs=runs/a,runs/b --output=curves.png
  vidcap studies curves --runs=runs/seeds --metrics=CIDEr --by=epoch,minute --output=curves.svg

There is a panel for each metric and a line for each run, with its stages one after another. A
folder of runs, such as that of ``--config.seeds``, means all of them. Minutes are those of training
steps and of waiting for their input, without compiling, validating and saving.
"""

import argparse
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.program_name import program_name
from vidcap_jax.studies.drawing import check_plot, figure
from vidcap_jax.training.metric_log import read_metric_log

METRICS = ('CIDEr', 'BLEU_4')
PLACES = ('step', 'epoch', 'minute')


@dataclasses.dataclass(frozen=True)
class Panel:
  """A metric of records of a kind, 'train' or a split's name, over steps, epochs or minutes."""

  kind: str
  metric: str
  by: str = 'step'


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


def names(runs: Sequence[pathlib.Path]) -> dict[pathlib.Path, str]:
  """Workdir -> the name of its folder, after that of the folder around it if two are the same."""
  short = [run.absolute().name for run in runs]
  if len(set(short)) == len(runs):
    return dict(zip(runs, short))
  return {run: '/'.join(run.absolute().parts[-2:]) for run in runs}


def curve(records: Sequence[dict], panel: Panel) -> list[tuple[float, float, str]]:
  """(place since the start of the run, value, stage) of every record of a kind with a metric."""
  points, before = [], 0.0
  for stage in dict.fromkeys(record['stage'] for record in records):
    own = [record for record in records if record['stage'] == stage]
    places = _places(own, panel.by)
    points += [
      (before + place, record[panel.metric], stage)
      for record, place in zip(own, places)
      if record['kind'] == panel.kind and isinstance(record.get(panel.metric), int | float)
    ]
    before += places[-1]
  return points


def _places(records: Sequence[dict], by: str) -> list[float]:
  """The steps, epochs or minutes from a stage's start until each of its records.

  Epochs and minutes are those of the records of training, and lie between these in proportion to
  the steps; where they have none, all are 0.
  """
  steps = [record['step'] for record in records]
  if by == 'step':
    return steps
  trained = [record for record in records if record['kind'] == 'train']
  if by == 'epoch':
    epochs = [record['epoch'] / record['step'] for record in trained if record.get('epoch')]
    return [step * (epochs[-1] if epochs else 0.0) for step in steps]
  known = [0, *(record['step'] for record in trained)]
  minutes = np.cumsum([0.0, *(record.get('seconds', 0.0) / 60 for record in trained)])
  return np.interp(steps, known, minutes).tolist()


def is_recorded(runs: Sequence[pathlib.Path], panel: Panel) -> bool:
  """Whether a run has a metric of a kind."""
  return any(curve(read_metric_log(run), panel) for run in runs)


def draw(runs: Mapping[pathlib.Path, str], panels: Sequence[Panel], out: str) -> None:
  """Writes the picture, in the format of the file's suffix.

  Args:
    runs: workdir -> name in the legend; those of one name have one colour.
    panels: what is drawn.
    out: the file.

  Raises:
    UserError: no run has a metric; the message lists the known ones.
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  picture = figure(figsize=(5.5 * len(panels), 4))
  journals = {run: read_metric_log(run) for run in runs}
  labels = list(dict.fromkeys(runs.values()))
  for axes, panel in zip(picture.subplots(1, len(panels), squeeze=False)[0], panels):
    curves = {run: curve(records, panel) for run, records in journals.items()}
    curves = {run: points for run, points in curves.items() if points}
    if not curves:
      raise _unknown(panel, [record for records in journals.values() for record in records])
    labelled = set()
    for run, points in curves.items():
      name = runs[run]
      xy = zip(*((place, value) for place, value, _ in points))
      label = None if name in labelled else name
      axes.plot(*xy, marker='.', color=f'C{labels.index(name)}', label=label)
      labelled.add(name)
    _mark_stages(axes, next(iter(curves.values())))
    axes.set(xlabel=panel.by, title=f'{panel.metric}, {panel.kind}')
    axes.grid(alpha=0.3)
    axes.legend()
  picture.savefig(out, dpi=150)


def _unknown(panel: Panel, records: Sequence[dict]) -> UserError:
  own = [record for record in records if record['kind'] == panel.kind]
  known = {key for record in own for key, value in record.items() if not isinstance(value, str)}
  return UserError(
    f'no run has {panel.metric!r} of {panel.kind!r}; known: '
    f'{", ".join(sorted(known - {"step"})) or "nothing"}'
  )


def _mark_stages(axes: Any, points: Sequence[tuple[float, float, str]]) -> None:
  """A dashed line where a run's next stage begins, with its name."""
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
  add(
    '--by',
    type=split,
    default=PLACES[:1],
    metavar='NAME,…',
    help=f'{", ".join(PLACES)}; default step',
  )
  add('--output', '--out', required=True, metavar='FILE', help='.png, .pdf or .svg')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  check_plot('--output', options.output)
  if unknown := [by for by in options.by if by not in PLACES]:
    raise UserError(f'--by={",".join(options.by)}: {unknown[0]!r} is none of {", ".join(PLACES)}')
  panels = [Panel(options.kind, metric, by) for metric in options.metrics for by in options.by]
  draw(names(workdirs(options.runs)), panels, options.output)


if __name__ == '__main__':
  main()
