"""Kills and resumes a small run many times; its results must equal those of an undisturbed run.

  python -m benchmarks.kill [--kills=20] [--seed=0] [--json=FILE]

A run of two stages (``benchmarks.kill_run``) is killed with SIGKILL at random moments, in a step,
in a save, in an evaluation or between stages, and resumed by the same command until it has
finished. Then the next run starts, until --kills kills have been made. Of every finished run the
checkpoints, metrics.jsonl (no step twice, none missing; without times) and captions are compared
with those of an undisturbed run. The times in goodput.json have to add up to the time from the
first start to the end. Exit code 1 if anything differs.
"""

import argparse
import collections
import os
import pathlib
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence

import benchmarks
from benchmarks import kill_run, run_results
from vidcap_jax import command_errors
from vidcap_jax.files import read_json
from vidcap_jax.progress import progress

PHASES = ('step', 'save', 'evaluation', 'between')
# The largest number of phases of a kind to let pass before a kill, and about how many seconds each
# phase takes.
MAX_PASSED = {'step': 20, 'save': 4, 'evaluation': 3, 'between': 1}
SECONDS = {'step': 0.5, 'save': 0.1, 'evaluation': 1.0, 'between': 0.2}
START_SECONDS = 5  # that starting and ending a process may take outside of what it measures
TIME_LIMIT = 600  # seconds for one start of the run


class Run:
  """One start of the run.

  Attributes:
    phases: the names of its phases as they begin, and None when it ends.
    lines: its output.
    process: its process.
  """

  def __init__(self, data: str, workdir: pathlib.Path, environment: dict):
    self.phases: queue.Queue[str | None] = queue.Queue()
    self.lines: list[str] = []
    self.process = subprocess.Popen(
      [sys.executable, '-m', 'benchmarks.kill_run', data, str(workdir)],
      env=environment,
      stdout=subprocess.PIPE,
      stderr=subprocess.STDOUT,
      text=True,
    )
    threading.Thread(target=self._read, daemon=True).start()

  def _read(self) -> None:
    for line in self.process.stdout or ():
      self.lines.append(line)
      if match := re.match(r'phase: (\w+)', line):
        self.phases.put(match[1])
    self.phases.put(None)

  def finish(self) -> None:
    """Waits for the end.

    Raises:
      RuntimeError: it failed; the message contains its output.
    """
    if self.process.wait(TIME_LIMIT):
      raise RuntimeError(f'the run ended with {self.process.returncode}:\n{"".join(self.lines)}')


def half_written(workdir: pathlib.Path) -> set[str]:
  """The names of unfinished checkpoints, being saved now or when a run was killed."""
  return {path.name for path in workdir.glob('checkpoints/*/*') if 'tmp' in path.name}


def kill_in(run: Run, target: str, passed: int, delay: float, workdir: pathlib.Path) -> str | None:
  """Kills a run in a phase.

  Args:
    run: just started.
    target: the phase to wait for.
    passed: number of these phases to let pass.
    delay: seconds to wait in the phase.
    workdir: of the run.

  Returns:
    The phase in which the run was killed, or None if it finished first.
  """
  # Checkpoints that earlier kills left unfinished do not show a save now.
  before, phase = half_written(workdir), None
  while (phase := run.phases.get(timeout=TIME_LIMIT)) is not None:
    if phase == target:
      passed -= 1
      if passed < 0:
        break
  if phase is None:
    run.finish()
    return None
  time.sleep(delay)
  run.process.send_signal(signal.SIGSTOP)  # so that the phase read now is that of the kill
  time.sleep(0.02)
  while not run.phases.empty():
    phase = run.phases.get()
  saving = bool(half_written(workdir) - before)
  if phase is None:
    run.finish()
    return None
  run.process.kill()
  run.process.wait()
  return 'save' if saving else 'step' if phase == 'save' else phase


def measure(kills: int, seed: int, folder: pathlib.Path) -> list[benchmarks.Row]:
  """Numbers of kills by phase, of finished runs and of differences."""
  rng = random.Random(seed)
  # A compilation cache that all starts share, or compiling would take nearly all time.
  environment = {**os.environ, 'JAX_COMPILATION_CACHE_DIR': str(folder / 'compiled')}
  environment['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.2'
  data = kill_run.write_data(folder / 'set')
  undisturbed = folder / 'undisturbed'
  Run(data, undisturbed, environment).finish()
  expected = run_results.read_run(undisturbed)
  killed_in: collections.Counter[str] = collections.Counter()
  runs, differences, lost = 0, [], 0.0
  workdir, clock = folder / 'run_0', RunClock()
  for number in progress(range(kills), kills, 'killing', unit='kills'):
    while True:
      target = min(PHASES[:3], key=lambda phase: killed_in[phase]) if number % 8 else 'between'
      passed, delay = rng.randrange(MAX_PASSED[target]), rng.uniform(0, SECONDS[target])
      run = Run(data, workdir, environment)
      phase = kill_in(run, target, passed, delay, workdir)
      if phase:
        killed_in[phase] += 1
        break
      runs += 1
      differences += compare(expected, workdir) + clock.compare(workdir)
      lost += read_json(workdir / 'goodput.json')['seconds']['lost']
      workdir, clock = folder / f'run_{runs}', RunClock()
    clock.starts += 1
  Run(data, workdir, environment).finish()
  runs += 1
  differences += compare(expected, workdir) + clock.compare(workdir)
  lost += read_json(workdir / 'goodput.json')['seconds']['lost']
  for line in differences:
    print(line)
  rows = [benchmarks.Row(f'killed in {phase}', killed_in[phase]) for phase in PHASES]
  rows.append(benchmarks.Row('finished runs', runs))
  rows.append(benchmarks.Row('work lost by a kill', lost / kills, 's'))
  count = len(differences)
  return [*rows, benchmarks.Row('differences', count, goal=0, met=not count)]


class RunClock:
  """The time of a run over all its starts, measured from outside.

  Attributes:
    starts: of the run so far.
  """

  def __init__(self):
    self.starts, self._began = 1, time.time()

  def compare(self, workdir: pathlib.Path) -> list[str]:
    """The differences to the ledger of a run that has just finished, one line each."""
    wall, ledger = time.time() - self._began, read_json(workdir / 'goodput.json')
    parts, total = ledger['seconds'], sum(ledger['seconds'].values())
    found = [
      (ledger['starts'] == self.starts, f'{ledger["starts"]} starts, and not {self.starts}'),
      (min(parts.values()) > -0.01, f'a part below 0: {parts}'),
      (abs(total - ledger['wall_seconds']) < 0.01, f'parts add up to {total:.2f} s: {ledger}'),
      (abs(total - wall) < START_SECONDS, f'{total:.2f} s, but it took {wall:.2f} s'),
    ]
    return [f'{workdir.name}: goodput.json has {text}' for fine, text in found if not fine]


def compare(expected: dict, workdir: pathlib.Path) -> list[str]:
  """The differences between a finished run and the undisturbed one, one line each."""
  actual = run_results.read_run(workdir)
  lines = []
  for part, value in expected.items():
    if actual[part] != value:
      keys = value if isinstance(value, dict) else range(max(len(value), len(actual[part])))
      different = [key for key in keys if _get(value, key) != _get(actual[part], key)]
      lines.append(f'{workdir.name}: {part} differ at {different[:5]}')
  steps = [(r['stage'], r['kind'], r['step']) for r in actual['records']]
  if len(set(steps)) < len(steps):
    lines.append(f'{workdir.name}: metrics.jsonl has duplicate steps')
  return lines


def _get(values, key):
  try:
    return values[key]
  except (KeyError, IndexError):
    return None


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if a run that was killed differs."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.kill',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--kills', type=int, default=20, metavar='N', help='default: %(default)s')
  add('--seed', type=int, default=0, help='of the moments of the kills (default: %(default)s)')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  with tempfile.TemporaryDirectory() as folder:
    rows = measure(args.kills, args.seed, pathlib.Path(folder))
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
