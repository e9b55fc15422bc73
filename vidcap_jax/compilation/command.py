"""Compiles all programs of a run, one after another, and prints the verdict on each."""

import dataclasses
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Sequence

import jax
from ml_collections import ConfigDict

from vidcap_jax.compilation import printing, topology
from vidcap_jax.compilation.fit import largest_batch
from vidcap_jax.compilation.jobs import Job, Selection, find_jobs
from vidcap_jax.compilation.processes import run_job
from vidcap_jax.compilation.report import Report
from vidcap_jax.files import check_output


@dataclasses.dataclass(frozen=True)
class Options:
  """How programs are compiled.

  Attributes:
    topology: what for, e.g. v5e:2x4.
    low_effort: whether the compiler takes less time, for a slower program.
    fit_batch: whether the largest batch that fits is searched.
    timeout: seconds of a program.
    output: folder of texts and of report.json; '' for none.
    reports: folder of reports of programs compiled before; '' for none.
  """

  topology: str
  low_effort: bool = False
  fit_batch: bool = False
  timeout: float = 3600.0
  output: str = ''
  reports: str = ''


def default_reports() -> str:
  """The folder of reports in the user's cache folder."""
  cache = os.environ.get('XDG_CACHE_HOME') or '~/.cache'
  return str(pathlib.Path(cache, 'vidcap_jax', 'compiled').expanduser())


def compile_run(
  config: ConfigDict,
  selection: Selection,
  options: Options,
  log: Callable[[str], None] = print,
) -> bool:
  """Compiles the programs of a run; True if all compile and fit.

  Args:
    config: of the run; ``source`` is its file.
    selection: which of its programs.
    options: how.
    log: gets the lines of the report.

  Raises:
    UserError: an unknown topology, stage or program; a compiler that is not installed; settings or
      data that don't fit together.
  """
  jax.config.update('jax_platforms', 'cpu')  # leaves accelerators to other processes
  target = topology.read_topology(options.topology)
  versions = topology.installed_versions(target.chip.platform)
  environment = topology.environment(target)
  if options.output:
    check_output('--output', options.output, folder=True)
    pathlib.Path(options.output).mkdir(parents=True, exist_ok=True)
  folders = {'reports': options.reports, 'output': options.output}
  jobs, notes = find_jobs(config, selection, target, low_effort=options.low_effort, **folders)
  used = ', '.join(f'{n} {v}' for n, v in {'jax': jax.__version__, **versions}.items())
  assumed = bool(jobs) and jobs[0].data.assumed
  for line in printing.heading(target, used, options.low_effort, assumed):
    log(line)
  for note in notes:
    log(note)
  reports = []
  for number, job in enumerate(jobs, 1):
    label = f'{number} of {len(jobs)}, {job.name}'
    compiled = _compile(job, environment, options, label, log)
    reports.append(compiled)
    for line in printing.report_lines(compiled, target.chip):
      log(line)
    _write(options.output, target, used, reports)
  log(printing.summary(reports, target.chip))
  return bool(reports) and all(report.fits(target.chip) for report in reports)


def _compile(
  job: Job,
  environment: dict[str, str],
  options: Options,
  label: str,
  log: Callable[[str], None],
) -> Report:
  """Compiles a program, or several batches of it to find the largest that fits."""

  def run(job: Job) -> Report:
    with _Progress(f'{label}, batch {job.rows}') as progress:
      return run_job(job, environment, options.timeout, progress.show)

  if not options.fit_batch:
    return run(job)
  found = largest_batch(job, run)
  tried = ', '.join(
    f'{b}: {"does not compile" if m is None else f"{m:,.0f} MiB"}' for b, m in found.tried.items()
  )
  report = found.report
  if report.fits(job.topology.chip):
    more = ', and more may' if found.more_may_fit else ''
    batch = f'{report.batch_per_chip} a chip{more}'
    log(f'{job.name}: the largest batch that fits is {batch} ({tried})')
  return report


class _Progress:
  """What is being compiled and for how long, on stderr.

  On a terminal one line is rewritten; elsewhere a line is printed every minute.
  """

  def __init__(self, label: str):
    self._label, self._shown = label, -60.0
    self._terminal = sys.stderr.isatty()

  def __enter__(self) -> '_Progress':
    self._start = time.monotonic()
    return self

  def show(self, seconds: float) -> None:
    """Shows the time since the start, if that is due."""
    if seconds - self._shown < (1 if self._terminal else 60):
      return
    self._shown = seconds
    line = f'compiling {self._label}: {seconds:.0f} s'
    sys.stderr.write(f'\r{line:<79}' if self._terminal else line + '\n')
    sys.stderr.flush()

  def __exit__(self, *_) -> None:
    if self._terminal:
      sys.stderr.write(f'\r{"":<79}\r')
      sys.stderr.flush()


def _write(
  output: str, target: topology.Topology, versions: str, reports: Sequence[Report]
) -> None:
  """Writes report.json, after each program, so that nothing is lost when the command is stopped."""
  if not output:
    return
  content = {
    'topology': target.name,
    'chip': dataclasses.asdict(dataclasses.replace(target.chip, target_config='')),
    'versions': versions,
    'programs': [
      {**dataclasses.asdict(report), 'fits': report.fits(target.chip)} for report in reports
    ],
  }
  pathlib.Path(output, 'report.json').write_text(json.dumps(content, indent=1) + '\n')
