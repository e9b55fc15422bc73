"""The table of compiled programs: every config's stages and programs, for TPUs and GPUs.

  python -m benchmarks.compiled --json=compiled.json --markdown=docs/compiled.md
  python -m benchmarks.compiled --topology=v5e:16x16,h100:8 --configs main --programs=step \\
      --json=compiled.json --markdown=docs/compiled.md

Each program is compiled as by ``--mode=compile``, one after another, without data and devices; the
real compilers are needed (docs/accelerators.md). Training steps come before the other programs, and
the longest captions first. A program that fails or takes too long is a row of the table and not the
end. A row of the JSON file with the same versions is not compiled again, so that a stopped command
goes on where it stopped.

More than eight chips get a larger batch: each has the rows that it has of eight.
"""

import argparse
import dataclasses
import datetime
import json
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
from ml_collections import ConfigDict

from benchmarks import add_json
from vidcap_jax import command_errors, config_files
from vidcap_jax.compilation import command, printing, topology
from vidcap_jax.compilation.jobs import Job, Selection, find_jobs
from vidcap_jax.compilation.processes import run_job
from vidcap_jax.compilation.report import Report, from_dict
from vidcap_jax.counts import counted
from vidcap_jax.studies import markdown

MAIN = (
  'configs/vatex_fusion.py',
  'configs/msrvtt_stats.py',
  'configs/msrvtt_refocus.py',
  'configs/dual_afr.py:data=msrvtt',
  'configs/global2local.py:data=msrvtt',
)
# With MAIN, every config file, data set and recipe. Other variants are rows of the papers' tables.
CONFIGS = (
  *MAIN,
  'configs/msvd_stats.py',
  'configs/msvd_refocus.py',
  'configs/dual_afr.py:data=msvd',
  'configs/dual_afr.py:data=mvad',
  'configs/global2local.py:data=msvd',
  'configs/msrvtt_refocus.py:recipe=rl',
  'configs/vatex_fusion.py:vanilla',
  'configs/vatex_fusion.py:temporal,fallback=i3d',
  'configs/msrvtt1000.py',
  'configs/clip_transformer.py:size=base',
  'configs/flickr8k.py',
  'configs/msrvtt_frames.py',
  'configs/quickstart.py',
)
DTYPES = ('float32', 'bfloat16')
BEGIN, END = '<!-- compiled: python -m benchmarks.compiled -->', '<!-- compiled end -->'
_SAME_BATCH = 8  # chips, up to which a config's batch is compiled as it is
_LONGEST_ERROR = 160  # letters
_LEAST_SECONDS = 5e-6  # of collectives that are named beside the time of a program
_BUCKETS = ('longest', 'all')


@dataclasses.dataclass(frozen=True)
class Row:
  """A program of the table.

  Attributes:
    config: FILE or FILE:VARIANT.
    topology: what it is compiled for.
    dtype: ``train.dtype``.
    effort: 'full' or 'low'.
    versions: of JAX and of the compiler.
    date: when the row was made.
    report: what is known of the program.
  """

  config: str
  topology: str
  dtype: str
  effort: str
  versions: str
  date: str
  report: Report

  @property
  def key(self) -> tuple:
    """What makes two rows the same program."""
    report = self.report
    of_run = (self.config, self.topology, self.dtype, self.effort)
    return (*of_run, report.stage, report.program, report.length)


@dataclasses.dataclass(frozen=True)
class Planned:
  """A program that is to be compiled: a job, and the attributes of its row without a report."""

  job: Job
  row: Row

  @property
  def program(self) -> tuple[str, str, str]:
    """Its name, without the number of tokens."""
    return self.row.config, self.job.stage, self.job.program


def plan(options: argparse.Namespace) -> list[Planned]:
  """The programs that the command line asks for, in the order of compilation."""
  found = [
    planned
    for name in options.topology
    for source in options.configs
    for dtype in options.dtypes
    for planned in _of_config(config_files.current_source(source), name, dtype, options)
  ]
  longest: dict[tuple, int] = {}
  for planned in found:
    name = planned.program
    longest[name] = max(planned.job.length, longest.get(name, 0))

  def order(planned: Planned) -> tuple:
    place = options.topology.index(planned.row.topology), options.dtypes.index(planned.row.dtype)
    return planned.job.length < longest[planned.program], place, not planned.job.trains

  if options.buckets == 'longest':
    found = [planned for planned in found if planned.job.length == longest[planned.program]]
  return sorted(found, key=order)


def _of_config(
  source: str, name: str, dtype: str, options: argparse.Namespace
) -> Iterator[Planned]:
  target = topology.read_topology(name)
  used = {'jax': jax.__version__, **topology.installed_versions(target.chip.platform)}
  versions = ', '.join(f'{package} {version}' for package, version in used.items())
  config = _config(source, dtype)
  selection = Selection(programs=options.programs)
  low = options.effort == 'low'
  jobs, _ = find_jobs(config, selection, target, low_effort=low, reports=options.reports)
  for job in jobs:
    if options.stages and job.stage not in options.stages:
      continue
    if job.trains and target.chips > _SAME_BATCH:
      job = job.with_rows(job.rows * target.chips // _SAME_BATCH)
    empty = Report(job.stage, job.program, job.length, job.rows)
    yield Planned(job, Row(source, name, dtype, options.effort, versions, '', empty))


def _config(source: str, dtype: str) -> ConfigDict:
  config = config_files.load_config(source)
  with config.unlocked():
    config.source, config.train.dtype = source, dtype
  return config


def compile_rows(
  planned: Sequence[Planned],
  rows: dict[tuple, Row],
  timeout: float,
  keep: Callable[[Mapping[tuple, Row]], None],
  until: float = float('inf'),
) -> None:
  """Compiles the programs that have no row yet, or one of other versions.

  Args:
    planned: programs in their order.
    rows: those of earlier runs, by their key; the new ones are added.
    timeout: seconds of a program.
    keep: called with all rows after each program.
    until: on ``time.monotonic``'s clock, when no further program is begun.
  """
  for number, (job, row) in enumerate(((p.job, p.row) for p in planned), 1):
    if row.key in rows and rows[row.key].versions == row.versions:
      continue
    if time.monotonic() > until:
      print(f'the time is over; not compiled: {counted(len(planned) - number + 1, "program")}')
      return
    environment = topology.environment(job.topology)
    report = run_job(job, environment, timeout, lambda _: None)
    made = dataclasses.replace(row, date=datetime.date.today().isoformat(), report=report)
    rows[row.key] = made
    lines = printing.report_lines(report, job.topology.chip)
    print(f'{number} of {len(planned)}, {row.config} {row.topology} {row.dtype}: {lines[0]}')
    sys.stdout.flush()
    keep(rows)


def read_rows(file: str) -> dict[tuple, Row]:
  """The rows of a JSON file by their key; none if it does not exist."""
  path = pathlib.Path(file)
  values = json.loads(path.read_text())['rows'] if path.is_file() else []
  rows = (Row(**{**each, 'report': from_dict(each['report'])}) for each in values)
  return {row.key: row for row in rows}


def write_rows(rows: Mapping[tuple, Row], file: str) -> None:
  """Writes rows as JSON."""
  values: list[dict[str, Any]] = [dataclasses.asdict(row) for row in rows.values()]
  pathlib.Path(file).write_text(json.dumps({'rows': values}, indent=1) + '\n')


def page_block(rows: Iterable[Row]) -> str:
  """Markdown with a table for each topology and precision."""
  groups: dict[tuple[str, str], list[Row]] = {}
  for row in rows:
    groups.setdefault((row.topology, row.dtype), []).append(row)
  known = list(dict.fromkeys(name for name, _ in groups))
  ordered = sorted(groups, key=lambda g: (known.index(g[0]), DTYPES.index(g[1])))
  return '\n\n'.join(_section(*group, groups[group]) for group in ordered)


def _section(name: str, dtype: str, rows: Sequence[Row]) -> str:
  """The heading, the verdict and the table of a topology and a precision."""
  target = topology.read_topology(name)
  used = '; '.join(dict.fromkeys(f'{row.versions}, {row.effort} effort' for row in rows))
  place = {source: number for number, source in enumerate(CONFIGS)}
  rows = sorted(rows, key=lambda row: place.get(row.config, len(place)))  # programs in order
  verdict = printing.summary([row.report for row in rows], target.chip)
  chips = counted(target.chips, 'chip')
  head = ('config', 'stage', 'program', 'batch x tokens', 's', 'MiB', 'ms', 'GFLOP', '% of peak')
  cells = [(*head, 'collectives', 'remarks'), *(_cells(row, target) for row in rows)]
  table = markdown.table(cells, left=(0, 1, 2, 9, 10))
  title = f'### {name}, {dtype}'
  text = f'{chips} of {printing.mib(target.chip.memory)} MiB; {used}. {verdict}.'
  return '\n'.join((title, '', text, '', table))


def _cells(row: Row, target: topology.Topology) -> tuple[str, ...]:
  """The cells of a row."""
  report, chip = row.report, target.chip
  name = row.config.removeprefix('configs/')
  first = (name, report.stage, report.program, f'{report.rows} x {report.length}')
  if report.memory is None or report.contents is None:
    seconds = f'{report.seconds:.0f}' if report.seconds else ''
    failure = printing.failure(report, _LONGEST_ERROR).replace('|', '\\|')
    return *first, seconds, *[''] * 5, failure
  time_text = f'{1e3 * report.estimate:.3g}'
  if report.collective_estimate >= _LEAST_SECONDS:
    time_text += f' + {1e3 * report.collective_estimate:.2g}'
  remarks = [] if report.fits(chip) else ['does not fit']
  remarks += printing.remarks(report, report.contents, examples=False)
  return (
    *(*first, f'{report.seconds:.0f}', printing.mib(report.memory.total), time_text),
    *(printing.gflop(report), f'{100 * report.share_of_peak:.1f}'),
    *(printing.collectives(report.contents, examples=False), '; '.join(remarks)),
  )


def write_page(rows: Iterable[Row], page: str) -> None:
  """Replaces what is between the marks of a page.

  Raises:
    UserError: the page lacks the marks.
  """
  path = pathlib.Path(page)
  before, _, after = markdown.split_page(path.read_text(), BEGIN, END)
  path.write_text(f'{before}{BEGIN}\n\n{page_block(rows)}\n\n{END}{after}')


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = _parser().parse_args(arguments)
  if options.configs == ['main']:
    options.configs = list(MAIN)
  until = time.monotonic() + 60 * options.minutes if options.minutes else float('inf')
  jax.config.update('jax_platforms', 'cpu')  # leaves accelerators to other processes

  def keep(rows: Mapping[tuple, Row]) -> None:
    write_rows(rows, options.json)
    if options.markdown:
      write_page(rows.values(), options.markdown)

  rows = read_rows(options.json)
  if options.markdown:
    write_page(rows.values(), options.markdown)  # a page without marks ends the command here
  if not options.page_only:
    compile_rows(plan(options), rows, options.timeout, keep, until)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.compiled',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )

  def add(flag: str, default: Any, help: str, **more: Any) -> None:
    parser.add_argument(flag, default=default, help=help, **more)

  names = {'type': lambda text: text.split(',')}
  add('--topology', ['v5e:2x4'], 'what is compiled for, with commas between', **names)
  add('--configs', list(CONFIGS), "FILE[:VARIANT] …; 'main': the five main ones", nargs='+')
  add('--dtypes', list(DTYPES), 'with commas between', **names)
  add('--stages', [], 'only stages of these names, with commas between', **names)
  add('--programs', [], 'as for --mode=compile; default: those that runs compile', **names)
  add('--buckets', 'longest', 'captions of all lengths, or only the longest', choices=_BUCKETS)
  add('--effort', 'low', "the compiler's", choices=('low', 'full'))
  add('--timeout', 1200.0, 'seconds of a program; default: 20 minutes', type=float)
  add('--minutes', 0.0, 'when no further program is begun; 0: no limit', type=float)
  add('--reports', command.default_reports(), "folder of programs' reports, as for --mode=compile")
  add('--markdown', None, 'a page whose block between two marks becomes the table', metavar='PAGE')
  add_json(parser, required=True)
  parser.add_argument('--page_only', action='store_true', help='compile nothing')
  return parser


if __name__ == '__main__':
  main()
