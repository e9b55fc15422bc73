"""The papers' result tables, with the scores of your runs below the published figures.

  python -m vidcap_jax.studies.tables
  python -m vidcap_jax.studies.tables --paper=stats --table=1 --runs=runs

The first command lists the papers and their tables. The published figures, in ``published.json``,
are those of the papers, in their units. Each row of a paper's model or baseline names the config
and variant that trains it; rows of other authors' methods have none.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output
from vidcap_jax.studies import runs

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
  """

  name: str
  data: str
  split: str
  published: Mapping[str, float | None]
  config: str | None
  missing: str


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
    raise UserError(f'paper {paper!r} has no table {number!r}; known: {", ".join(tables)}')
  return [_table(paper, known[paper], n) for n in tables if number in (None, n)]


def listing() -> str:
  """Lists every paper and its tables."""
  lines = []
  for name, paper in papers().items():
    lines.append(f'--paper={name}  {_cited(paper)}')
    lines += [f'  --table={n}  {table["shows"]}' for n, table in paper['tables'].items()]
  return '\n'.join(lines)


def _cited(paper: Mapping) -> str:
  return f'{paper["title"]} ({paper["authors"]}, {paper["year"]})'


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
    )
    for row in table['rows']
  )
  title = f'{_cited(paper)}\nTable {number}: {table["shows"]}; {paper["unit"]}s, as published'
  note = table.get('note', '')
  return Table(name, number, title, note, paper['unit'], paper['decimals'], metrics, rows)


def measured(row: Row, found: Sequence[runs.Run]) -> list[runs.Run]:
  """The runs of the row's config and variant."""
  if row.config is None or not found:
    return []
  config = runs.config_variant(row.config)
  return [run for run in found if run.config == config]


def render(table: Table, found: Sequence[runs.Run]) -> str:
  """The table as text, each row's runs below it."""
  lines: list[tuple[str, list[str], str]] = []  # name, a cell for each metric, remark
  group = None
  for row in table.rows:
    if (row.data, row.split) != group:
      group = (row.data, row.split)
      lines.append((f'{row.data}, {row.split}', list(table.metrics), ''))
    cells = [_cell(table, row.published[metric]) for metric in table.metrics]
    lines.append((f'  {row.name}', cells, row.config or row.missing))
    for run in measured(row, found):
      scores = run.scores.get(row.split, {})
      cells = [_measured_cell(table, scores.get(metric)) for metric in table.metrics]
      lines.append((f'    run: {run.workdir.name}', cells, _about(run, row.split)))
  name_width = max(len(name) for name, _, _ in lines)
  widths = [max(len(cells[i]) for _, cells, _ in lines) for i in range(len(table.metrics))]
  text = [
    f'{name:<{name_width}}  {"  ".join(c.rjust(w) for c, w in zip(cells, widths))}  {note}'.rstrip()
    for name, cells, note in lines
  ]
  return '\n'.join([table.title, *filter(None, [table.note]), '', *text])


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
          'data': run.data.get(row.split),
          'seeds': run.seeds,
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


def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    prog='python -m vidcap_jax.studies.tables',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    epilog='To train a row: python -m vidcap_jax.main --config=CONFIG --config.data.dir=DIR '
    '--workdir=RUNS/NAME\nwith the CONFIG at the end of its line; --config.seeds=0,1,2 for a mean\n'
    'and deviation.\nA run is listed under the row of its config and variant, with the settings\n'
    'that flags changed; short :runlocal runs are left out.',
  )
  parser.add_argument('--paper', help='its name; without it the papers and tables are listed')
  parser.add_argument('--table', metavar='NUMBER', help='of the paper; default: all')
  parser.add_argument('--runs', metavar='DIR', help='a folder of workdirs, or a workdir')
  parser.add_argument('--json', metavar='FILE', help='also write the rows there')
  options = parser.parse_args(arguments)
  try:
    if options.paper is None:
      if options.table or options.runs or options.json:
        raise UserError('--table, --runs and --json need a --paper')
      print(listing())
      return
    tables = read(options.paper, options.table)
    if options.json:
      check_output('--json', options.json)
    found, problems = runs.find(options.runs) if options.runs else ([], [])
    print('\n\n'.join(render(table, found) for table in tables))
    if options.runs:
      rows = [row for table in tables for row in table.rows]
      fitting = {run.workdir for row in rows for run in measured(row, found)}
      print(f'\n{len(fitting)} of {len(found) + len(problems)} runs in {options.runs} belong here')
    for problem in problems:
      print(f'left out: {problem}')
    if options.json:
      text = json.dumps(as_json(tables, found), indent=1, ensure_ascii=False) + '\n'
      pathlib.Path(options.json).write_text(text)
  except (UserError, OSError) as error:
    sys.exit(f'error: {error}')


if __name__ == '__main__':
  main()
