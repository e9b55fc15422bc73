r"""One table of all runs in some folders: scores, baselines, published scores, time and size.

  vidcap studies results --runs=runs
  vidcap studies results --runs=runs/flickr8k --json=results.json \
      --markdown=docs/results/flickr8k.md --curves=docs/images/flickr8k.png

Each stage that makes captions is a row, with mean and deviation over its seeds. Beside the rows are
the best constant caption, the captions of the nearest training videos, those of people by each
other, and each run's CIDEr with features swapped between videos, where the data set is at hand;
they are computed once and kept in the runs. Scores of others are those of PUBLISHED in the runs'
config files. Minutes are those of training steps and their input.
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output, write_json
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import (
  curves,
  examples,
  markdown,
  results_baselines,
  results_rows,
  results_table,
)
from vidcap_jax.studies.drawing import check_plot
from vidcap_jax.studies.results_rows import Row
from vidcap_jax.studies.results_table import Section

BLOCK = 'results'  # the name of the marks in a page
METRIC = 'CIDEr'  # of the curves
_BASELINES = ('compute', 'kept', 'none')


def run(options: argparse.Namespace) -> None:
  """Reads the runs, and prints and writes what is asked for.

  Raises:
    UserError: no such folder, no run with scores in it, an output that can't be written, or a
      metric of curves that are not drawn.
  """
  if options.metric is not None and not options.curves:
    raise UserError(
      f'--metric={options.metric}: the metric of the curves, which are not drawn; give '
      '--curves=FILE, too, or leave --metric out (the tables have every metric)'
    )
  options.metric = options.metric or METRIC
  if options.json:
    check_output('--json', options.json)
  if options.markdown:
    markdown.check_page('--markdown', options.markdown, BLOCK)
  if options.curves:
    check_plot('--curves', options.curves)
  rows, problems = results_rows.find(options.runs)
  if not rows:
    raise UserError('; '.join(problems) or f'--runs={",".join(options.runs)}: no run in it')
  baselines = results_baselines.Baselines({}, {})
  if options.baselines != 'none':
    baselines = results_baselines.collect(rows, options.baselines == 'compute', _log)
  made = results_table.sections(rows, baselines)
  print('\n\n'.join(map(results_table.as_text, made)))
  for problem in problems:
    print(f'left out: {problem}')
  if options.curves:
    draw(rows, options.metric, options.curves)
  if options.json:
    write_json(options.json, results_table.as_json(made), False)
  if options.markdown:
    block = page_block(made, rows, options)
    markdown.write_block(options.markdown, BLOCK, block, new_page(made[0].data))


def draw(rows: Sequence[Row], metric: str, file: str) -> None:
  """Draws the validation metric of every run by epoch and by minute.

  Args:
    rows: of ``results_rows.find``; stages of one workdir are one curve, seeds have one colour.
    metric: its name.
    file: the picture.
  """
  names: dict[pathlib.Path, str] = {}
  for row in rows:
    for member in row.members:
      names.setdefault(member.workdir, row.name)
  split = rows[0].members[0].config['data']['val_split']
  panels = [curves.Panel(split, metric, by) for by in ('epoch', 'minute')]
  curves.draw(names, panels, file)


def page_block(made: Sequence[Section], rows: Sequence[Row], options: argparse.Namespace) -> str:
  """The tables, curves and commands as Markdown."""
  parts = [results_table.scores_markdown(section) for section in made]
  parts.append(results_table.costs_markdown(made))
  if options.curves:
    page = pathlib.Path(options.markdown).absolute().parent
    picture = os.path.relpath(pathlib.Path(options.curves).absolute(), page)
    parts.append(f'![Validation {options.metric} by epoch and by minute]({picture})')
  commands = dict.fromkeys(map(results_table.command, rows))
  parts.append('The command of each row:')
  parts.append('\n'.join(f'    {command}' for command in commands))
  return '\n\n'.join(parts)


def new_page(data: str) -> str:
  """A page of results on a data set, with the marks of the blocks that commands write."""
  title, about = f'# Results on {data}', 'State here in a few lines what was trained, and on what.'
  scores, captions = markdown.empty_block(BLOCK), markdown.empty_block(examples.BLOCK)
  return '\n\n'.join((title, about, '## Scores', scores + '\n## Captions', captions))


def _log(line: str) -> None:
  print(line, file=sys.stderr, flush=True)


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.results'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  names = lambda text: text.split(',')  # noqa: E731
  add('--runs', required=True, type=names, metavar='DIR,…', help='workdirs or folders of them')
  add(
    '--baselines',
    choices=_BASELINES,
    default='compute',
    help='compute those that no run has kept, show the kept ones, or none (default: %(default)s)',
  )
  add('--metric', metavar='NAME', help=f'of --curves (default: {METRIC})')
  add('--curves', metavar='FILE', help='also draw the curves of all runs: .png, .pdf or .svg')
  add('--json', metavar='FILE', help='also write the rows there')
  add(
    '--markdown',
    metavar='PAGE',
    help=f'also write the tables into a page, between {" and ".join(markdown.marks(BLOCK))}',
  )
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  run(options)


if __name__ == '__main__':
  main()
