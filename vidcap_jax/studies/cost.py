r"""Seconds and memory of training and inference of a table's rows, beside those of the first one.

  vidcap studies cost --paper=dual_afr --table=1 --data=MSVD --batch=4 --json=FILE
  vidcap studies cost --config=configs/dual_afr.py:variant=fc7+pool4 \
      --config=configs/dual_afr.py:variant=soft --plot=FILE.png

dualAFR's authors report that its inference is 1.2 to 1.5 times slower than that of their models of
a single layer and takes 2 to 4 times the extra memory. No data is read: sizes come from STREAMS and
VOCABULARY of the config file, features and captions are random, videos as long as the longest one,
and weights untrained. A training step is one of the last stage that trains a captioner, with its
gradients and update; inference captions a batch with the config's decoding. Memory is what the
compiler reports for the program, seconds are measured on this machine. A row that does not fit says
so.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.java import sanitise
from vidcap_jax.files import check_output, write_json
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import cost_row, tables
from vidcap_jax.studies.drawing import bars, check_plot, figure

TIME_LIMIT = 1800.0
_PROGRAMS = ('train', 'inference')
# Signals that end a process whose memory has run out: SIGKILL by the system, SIGABRT by XLA.
_OUT_OF_MEMORY = (-9, -6)


@dataclasses.dataclass(frozen=True)
class Row:
  """A config to measure, and its name in the table."""

  name: str
  config: str


def rows_of_table(paper: str, number: str, data: str | None) -> list[Row]:
  """The rows of a paper's table that have configs; each config once.

  Args:
    paper, number: as for ``tables.read``.
    data: only rows of this data set.

  Raises:
    UserError: an unknown paper, table or data set, or no row has a config.
  """
  (table,) = tables.read(paper, number)
  trained = [row for row in table.rows if row.config and row.models == 1]
  names = dict.fromkeys(row.data for row in trained)
  if data is not None and data not in names:
    raise UserError(f'--data={data}: table {number} has: {", ".join(names) or "no configs"}')
  by_config: dict[str, Row] = {}
  for row in trained:
    if data in (None, row.data) and row.config:
      name = row.name if data or len(names) == 1 else f'{row.name}, {row.data}'
      by_config.setdefault(row.config, Row(name, row.config))
  if not by_config:
    raise UserError(f'table {number} of {paper} has no row with a config')
  return list(by_config.values())


def measure_row(settings: cost_row.Settings, time_limit: float) -> dict[str, Any]:
  """The cost of a config, measured in a process of its own, so that a row that fails ends no other.

  Args:
    settings: of the row.
    time_limit: seconds.

  Returns:
    As ``cost_row.measure``, or {'problem': why there is none}.
  """
  command = [sys.executable, '-m', cost_row.__name__, json.dumps(vars(settings))]
  try:
    done = subprocess.run(command, capture_output=True, timeout=time_limit)
  except subprocess.TimeoutExpired:
    return {'problem': f'not finished within {time_limit:.0f} s'}
  if done.returncode == 0:
    return json.loads(done.stdout.splitlines()[-1])
  if done.returncode in _OUT_OF_MEMORY or b'RESOURCE_EXHAUSTED' in done.stderr:
    return {'problem': 'does not fit: the process ran out of memory and was ended'}
  last_line = sanitise(done.stderr.decode('utf-8', 'replace').rstrip().rpartition('\n')[2])
  return {'problem': last_line.removeprefix('error: ') or f'exit status {done.returncode}'}


def with_ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
  """Adds ``ratio`` to every program: seconds and memory relative to those of the first row."""
  baseline = rows[0]
  result = []
  for row in rows:
    row = dict(row)
    for program in _PROGRAMS:
      if program in row:
        ratio = {
          'seconds': _ratio(row, baseline, program, 'median'),
          'memory': _ratio(row, baseline, program, 'memory', 'total'),
        }
        row[program] = {**row[program], 'ratio': ratio}
    result.append(row)
  return result


def _ratio(row: dict, baseline: dict, program: str, *keys: str) -> float | None:
  values = []
  for each in (row, baseline):
    value: Any = each.get(program, {})
    for key in keys:
      value = (value or {}).get(key)
    values.append(value)
  return values[0] / values[1] if all(values) else None


def table(rows: Sequence[dict[str, Any]]) -> str:
  """The rows as text: seconds, memory, and the ratios of both."""
  header = ['row', 'train s', 'ratio', 'GiB', 'ratio', 'infer s', 'ratio', 'GiB', 'ratio']
  lines = []
  for row in rows:
    cells = [row['name']]
    problems = [row['problem']] if 'problem' in row else []
    for program in _PROGRAMS:
      found = row.get(program, {})
      memory = (found.get('memory') or {}).get('total')
      ratio = found.get('ratio', {})
      cells += [_number(found.get('median'), 4), _number(ratio.get('seconds'), 2)]
      cells += [_number(memory and memory / 2**30, 3), _number(ratio.get('memory'), 2)]
      problems += [f'{program}: {found["problem"]}'] if 'problem' in found else []
    lines.append((cells, '; '.join(problems)))
  widths = [max(len(cells[i]) for cells in [header, *(c for c, _ in lines)]) for i in range(9)]
  text = []
  for cells, problem in [(header, ''), *lines]:
    aligned = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:]))]
    text.append(f'{"  ".join(aligned)}  {problem}'.rstrip())
  return '\n'.join(text)


def _number(value: float | None, decimals: int) -> str:
  return '-' if value is None else f'{value:.{decimals}f}'


def plot(rows: Sequence[dict[str, Any]], path: str) -> None:
  """Draws the ratios to the first row, a group of bars for each kind.

  Raises:
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  groups = [(program, kind) for program in _PROGRAMS for kind in ('seconds', 'memory')]
  heights = {
    row['name']: [row.get(p, {}).get('ratio', {}).get(kind) for p, kind in groups] for row in rows
  }
  picture = figure(figsize=(9, 3.6))
  panel = picture.subplots()
  bars(panel, [f'{program}, {kind}' for program, kind in groups], heights)
  panel.axhline(1.0, color='grey', linewidth=1)
  if max((value or 0.0 for values in heights.values() for value in values), default=0.0) > 10:
    panel.set_yscale('log')
  panel.set(ylabel=f'relative to {rows[0]["name"]}')
  picture.savefig(path, dpi=150)


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.cost'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--config', action='append', default=[], metavar='FILE[:VARIANT]', help='a row; repeat it')
  add('--paper', help="in place of --config: the rows of a paper's table")
  add('--table', metavar='NUMBER', help='of the paper')
  add('--data', help='only rows of this data set of the table, e.g. MSVD')
  add('--batch', type=int, default=0, help="videos of a batch (default: the config's)")
  add('--repeats', type=int, default=5, help='timed calls (default: %(default)s)')
  add(
    '--shrink',
    type=int,
    default=1,
    metavar='N',
    help='divide the widths of model, features and vocabulary by N (default: 1, full size)',
  )
  add(
    '--max_frames', type=int, default=0, metavar='N', help='longest video (default: the data set)'
  )
  add('--compile_only', action='store_true', help='memory only, nothing is run')
  add(
    '--time_limit',
    type=float,
    default=TIME_LIMIT,
    metavar='SECONDS',
    help='for each row (default: %(default).0f)',
  )
  add('--json', metavar='FILE', help='write all figures there')
  add('--plot', metavar='FILE', help='draw the ratios there (.png, .pdf, .svg)')
  return parser


def _rows(options: argparse.Namespace) -> list[Row]:
  """The rows that the flags name.

  Raises:
    UserError: neither or both of --config and --paper, or a number below 1.
  """
  if bool(options.config) == bool(options.paper) or bool(options.paper) != bool(options.table):
    raise UserError('give --config, once for each row, or --paper and --table')
  for flag, least in (('batch', 0), ('repeats', 1), ('shrink', 1), ('max_frames', 0)):
    if getattr(options, flag) < least:
      raise UserError(f'--{flag}={getattr(options, flag)}: at least {least}')
  if options.paper:
    return rows_of_table(options.paper, options.table, options.data)
  return [Row(config.removeprefix('configs/'), config) for config in options.config]


def _measure(rows: Sequence[Row], options: argparse.Namespace) -> list[dict[str, Any]]:
  """The rows with their costs or problems.

  Raises:
    UserError: a config can't be read; before the first compilation.
  """
  every = [
    cost_row.Settings(
      row.config,
      options.batch,
      options.repeats,
      options.shrink,
      options.max_frames,
      not options.compile_only,
    )
    for row in rows
  ]
  for settings in every:
    cost_row.check_config(settings)
  measured = []
  for number, (row, settings) in enumerate(zip(rows, every), 1):
    print(f'{number} of {len(rows)}: {row.config}', file=sys.stderr, flush=True)
    cost = measure_row(settings, options.time_limit)
    measured.append({'name': row.name, 'config': row.config, **cost})
  return measured


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  rows = _rows(options)
  if options.json:
    check_output('--json', options.json)
  if options.plot:
    check_plot('--plot', options.plot)
  measured = with_ratios(_measure(rows, options))
  print(table(measured))
  if options.json:
    write_json(options.json, measured, ensure_ascii=False)
  if options.plot:
    plot(measured, options.plot)
  if all('problem' in row for row in measured):
    sys.exit(1)


if __name__ == '__main__':
  main()
