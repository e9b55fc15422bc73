"""The papers' result tables, with the scores of your runs below the published figures.

  vidcap tables
  vidcap tables --paper=stats --table=1 --runs=runs

The first command lists the papers with their tables and figures, and the commands that show the
same of your runs. The published figures, in ``published.json``, are those of the papers, in their
units. Each row of a paper's model or baseline names the config and variant that trains it; rows of
other authors' methods have none.
"""

import argparse
import dataclasses
import json
import pathlib
import shlex
from collections.abc import Mapping, Sequence

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output
from vidcap_jax.program_name import as_typed, program_name
from vidcap_jax.studies import listing, runs

_PUBLISHED = pathlib.Path(__file__).with_name('published.json')
_SCALES = {'fraction': 1.0, 'percent': 100.0}


@dataclasses.dataclass(frozen=True)
class Row:
  """One row of a published table.

  Attributes:
    name: as the paper calls it, shortened.
    data, split: the data set and what was scored.
    published: metric -> figure in the paper's unit, None where the paper has none.
    config: ``configs/FILE.py:VARIANT`` that trains it, or None.
    missing: why a row of the paper's own method has no config; empty for others.
    models: the number of models of the config whose ensemble the row is.
  """

  name: str
  data: str
  split: str
  published: Mapping[str, float | None]
  config: str | None
  missing: str
  models: int = 1


@dataclasses.dataclass(frozen=True)
class Table:
  """A published table: its title, metrics in their order, rows, and how its numbers are written."""

  paper: str
  number: str
  title: str
  note: str
  unit: str
  decimals: int
  metrics: tuple[str, ...]
  rows: tuple[Row, ...]


def papers() -> dict[str, dict]:
  """The contents of ``published.json``."""
  return json.loads(_PUBLISHED.read_text())


def read(paper: str, number: str | None = None) -> list[Table]:
  """A paper's table, or all of them.

  Args:
    paper, number: keys of ``published.json``.

  Raises:
    UserError: an unknown paper or table, with those known.
  """
  known = papers()
  if paper not in known:
    raise UserError(f'unknown paper {paper!r}; known: {", ".join(known)}')
  tables = known[paper]['tables']
  if number is not None and number not in tables:
    for shown in listing.results(paper, known[paper]):
      if shown.name == f'Table {number}':
        commands = ''.join(f'\n  {command}' for command in shown.commands)
        about = f'{shown.about}{":" if commands else "; a drawing, no result"}{commands}'
        raise UserError(f'table {number} of {paper!r} has no scores; it shows {about}')
    raise UserError(f'paper {paper!r} has no table {number!r}; known: {", ".join(tables)}')
  return [_table(paper, known[paper], n) for n in tables if number in (None, n)]


def _table(name: str, paper: Mapping, number: str) -> Table:
  table = paper['tables'][number]
  metrics = tuple(table['metrics'])
  rows = tuple(
    Row(
      row['row'],
      row['data'],
      row['split'],
      dict(zip(metrics, row['scores'], strict=True)),
      row.get('config'),
      row.get('missing', ''),
      row.get('models', 1),
    )
    for row in table['rows']
  )
  title = (
    f'{listing.cited(paper)}\nTable {number}: {table["shows"]}; {paper["unit"]}s, as published'
  )
  note = table.get('note', '')
  return Table(name, number, title, note, paper['unit'], paper['decimals'], metrics, rows)


def measured(row: Row, found: Sequence[runs.Run]) -> list[runs.Run]:
  """The runs of the row's config and variant; of an ensemble's row those that scored its split."""
  if row.config is None or not found:
    return []
  config = runs.config_variant(row.config)
  own = [run for run in found if run.config == config]
  if row.models == 1:
    return [run for run in own if run.models == 1]
  return [run for run in own if run.models > 1 and row.split in run.scores]


def ensemble_command(row: Row, found: Sequence[runs.Run]) -> str:
  """The command that evaluates the models of an ensemble's row together.

  It has the workdirs of trained models if there are enough, else RUN for that of a run with seeds.
  """
  assert row.config is not None
  config = runs.config_variant(row.config)
  trained = [run for run in found if run.config == config and run.models == 1 and not run.stage]
  folders = [str(folder) for run in trained for folder in run.folders][: row.models]
  output = f'{trained[0].workdir}/ensemble/{row.split}' if trained else f'RUN/ensemble/{row.split}'
  if len(folders) < row.models:
    folders = [f'RUN/seed_{seed}' for seed in range(row.models)]
  command = ['python', '-m', 'vidcap_jax.main', '--mode=evaluate']
  command += [f'--checkpoint={",".join(folders)}', f'--split={row.split}', f'--output={output}']
  return shlex.join(command)


def render(table: Table, found: Sequence[runs.Run]) -> str:
  """The table as text, each row's runs below it, and the commands of its ensembles at the end."""
  lines: list[tuple[str, list[str], str]] = []  # name, a cell for each metric, remark
  commands, signatures = [], []
  group = None
  for row in table.rows:
    if (row.data, row.split) != group:
      group = (row.data, row.split)
      lines.append((f'{row.data}, {row.split}', list(table.metrics), ''))
    cells = [_cell(table, row.published[metric]) for metric in table.metrics]
    remark = row.config or row.missing
    if row.models > 1:
      remark = f'{row.models} models of {row.config}, see below'
      commands.append(f'{row.name}, {row.data}:\n  {ensemble_command(row, found)}')
    lines.append((f'  {row.name}', cells, remark))
    for run in measured(row, found):
      scores = run.scores.get(row.split, {})
      cells = [_measured_cell(table, scores.get(metric)) for metric in table.metrics]
      name = f'    run: {run.workdir.name if run.models == 1 else run.workdir}'
      name += f', {run.stage}' if run.stage else ''
      lines.append((name, cells, _about(run, row.split)))
      if row.split in run.signatures:
        signatures.append(f'{name.strip()}, {row.split}: {run.signatures[row.split]}')
  signatures = ['', 'Signatures:', *dict.fromkeys(signatures)] if signatures else []
  text = [table.title, *filter(None, [table.note]), '', *_columns(lines)]
  return '\n'.join([*text, *signatures, *([''] if commands else []), *commands])


def _columns(lines: Sequence[tuple[str, Sequence[str], str]]) -> list[str]:
  """Lines of (name, cells, remark) with aligned cells."""
  name_width = max(len(name) for name, _, _ in lines)
  widths = [max(len(cells[i]) for _, cells, _ in lines) for i in range(len(lines[0][1]))]
  return [
    f'{name:<{name_width}}  {"  ".join(c.rjust(w) for c, w in zip(cells, widths))}  {note}'.rstrip()
    for name, cells, note in lines
  ]


def _cell(table: Table, value: float | None) -> str:
  return '-' if value is None else f'{value:.{table.decimals}f}'


def _measured_cell(table: Table, score: runs.Score | None) -> str:
  if score is None:
    return '-'
  value = _cell(table, score.value * _SCALES[table.unit])
  if score.deviation is None:
    return value
  return f'{value} ± {_cell(table, score.deviation * _SCALES[table.unit])}'


def _about(run: runs.Run, split: str) -> str:
  """What a run's figures depend on: data, seeds, changed settings."""
  parts = [run.data.get(split, f'no scores of {split} yet')]
  if run.seeds > 1:
    parts.append(f'{run.seeds} seeds')
  if run.models > 1:
    parts.append(f'{run.models} models')
  if run.changed:
    changes = ', '.join(f'{key}={now!r}' for key, (_, now) in run.changed.items())
    parts.append(f'changed: {changes}')
  return '; '.join(parts)


def as_json(tables: Sequence[Table], found: Sequence[runs.Run]) -> list[dict]:
  """One object per row: its published figures and those of the runs, in the paper's unit."""
  rows = []
  for table in tables:
    scale = _SCALES[table.unit]
    for row in table.rows:
      measurements = [
        {
          'workdir': str(run.workdir),
          'stage': run.stage,
          'data': run.data.get(row.split),
          'signature': run.signatures.get(row.split),
          'seeds': run.seeds,
          'models': run.models,
          'changed': {key: now for key, (_, now) in run.changed.items()},
          'scores': {
            name: {'value': s.value * scale, 'deviation': s.deviation and s.deviation * scale}
            for name, s in run.scores.get(row.split, {}).items()
            if name in table.metrics
          },
        }
        for run in measured(row, found)
      ]
      source = {'paper': table.paper, 'table': table.number, 'unit': table.unit}
      rows.append({**source, **dataclasses.asdict(row), 'measured': measurements})
  return rows


_EPILOG = """\
To train a row: python -m vidcap_jax.main --config=CONFIG --config.data.dir=DIR --workdir=RUNS/NAME
with the CONFIG at the end of its line; --config.seeds=0,1,2 for a mean and deviation.
A run is listed under the row of its config and variant, with the settings that flags changed;
short :runlocal runs are left out."""


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.tables'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    epilog=as_typed(_EPILOG),
  )
  parser.add_argument('--paper', help='its name; without it all papers are listed')
  parser.add_argument('--table', metavar='NUMBER', help='of the paper; default: all')
  parser.add_argument('--runs', metavar='DIR', help='a folder of workdirs, or a workdir')
  parser.add_argument('--json', metavar='FILE', help='also write the rows there')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  if options.paper is None:
    if options.table or options.runs or options.json:
      raise UserError('--table, --runs and --json need a --paper')
    print(as_typed(listing.listing(papers())))
    return
  tables = read(options.paper, options.table)
  if options.json:
    check_output('--json', options.json)
  found, problems = runs.find(options.runs) if options.runs else ([], [])
  print(as_typed('\n\n'.join(render(table, found) for table in tables)))
  if options.runs:
    rows = [row for table in tables for row in table.rows]
    fitting = {run.workdir for row in rows for run in measured(row, found)}
    workdirs = {run.workdir for run in found}
    total = len(workdirs) + len(problems)
    print(f'\n{len(fitting)} of {total} runs in {options.runs} belong here')
    if not total:
      problems = [f'{options.runs}: no workdir in it (a folder with config.json)']
    short = dict.fromkeys(run.workdir for run in found if run.config.variant.get('runlocal'))
    problems += [f'{workdir}: a short :runlocal run' for workdir in short]
  for problem in problems:
    print(f'left out: {problem}')
  if options.table is None:
    lines = listing.lines(options.paper, papers()[options.paper])
    print('\n'.join(['', 'Commands for its tables and figures:', *lines, listing.PLACEHOLDERS]))
  if options.json:
    text = json.dumps(as_json(tables, found), indent=1, ensure_ascii=False) + '\n'
    pathlib.Path(options.json).write_text(text)


if __name__ == '__main__':
  main()
