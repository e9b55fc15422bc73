"""Kills a small run again and again; what it leaves must be what a run left alone leaves.

  python -m benchmarks.kill [--kills=20] [--seed=0] [--json=FILE]

A run of two stages (``benchmarks.kill_run``) is killed with SIGKILL at random moments, in a step,
in a save, in an evaluation or between stages, and started again by the same command until it is
finished; then another run begins, until there were so many kills. Of every finished run the final
parameters, optimiser state, metrics.jsonl (no step twice, none missing; times aside) and captions
are compared with those of the run left alone. Exit code 1 if anything differs.
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
from benchmarks import kill_run, outcome
from vidcap_jax.progress import progress

PHASES = ('step', 'save', 'evaluation', 'between')
# How often each comes before a run is killed in it, at most, and the seconds that it lasts, about.
COME = {'step': 20, 'save': 4, 'evaluation': 3, 'between': 1}
LAST = {'step': 0.5, 'save': 0.1, 'evaluation': 1.0, 'between': 0.2}
LIMIT = 600  # seconds that one start of the run may take


class Run:
  """A start of the run; ``phases`` gives the names of its phases as they begin, None at its end."""

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
      if found := re.match(r'phase: (\w+)', line):
        self.phases.put(found[1])
    self.phases.put(None)

  def finish(self) -> None:
    """Waits for the end; RuntimeError, with what it said, if it failed."""
    if self.process.wait(LIMIT):
      raise RuntimeError(f'the run ended with {self.process.returncode}:\n{"".join(self.lines)}')


def half_written(workdir: pathlib.Path) -> set[str]:
  """Checkpoints that are being saved, or were when a run was killed."""
  return {path.name for path in workdir.glob('checkpoints/*/*') if 'tmp' in path.name}


def kill_in(run: Run, target: str, passed: int, delay: float, workdir: pathlib.Path) -> str | None:
  """Kills a run in a phase; the phase that it was in when it died, None if it finished first.

  Args:
    run: just started.
    target: the phase to wait for.
    passed: how many of these phases to let pass.
    delay: seconds to wait in it.
    workdir: the run's.
  """
  # What earlier kills have left half-written is no sign of a save now.
  before, phase = half_written(workdir), None
  while (phase := run.phases.get(timeout=LIMIT)) is not None:
    if phase == target:
      passed -= 1
      if passed < 0:
        break
  if phase is None:
    run.finish()
    return None
  time.sleep(delay)
  run.process.send_signal(signal.SIGSTOP)  # so that what is seen now is what it dies in
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
  """Counts of kills by phase, of finished runs and of those that differ."""
  rng = random.Random(seed)
  # Compiled programs are kept from start to start, or nearly all time would go into compiling.
  environment = {**os.environ, 'JAX_COMPILATION_CACHE_DIR': str(folder / 'compiled')}
  environment['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.2'
  data = kill_run.write_data(folder / 'set')
  alone = folder / 'alone'
  Run(data, alone, environment).finish()
  expected = outcome.left_by(alone)
  died: collections.Counter[str] = collections.Counter()
  runs, different = 0, []
  workdir = folder / 'run_0'
  for number in progress(range(kills), kills, 'killing', unit='kills'):
    while True:
      target = min(PHASES[:3], key=lambda phase: died[phase]) if number % 8 else 'between'
      passed, delay = rng.randrange(COME[target]), rng.uniform(0, LAST[target])
      run = Run(data, workdir, environment)
      phase = kill_in(run, target, passed, delay, workdir)
      if phase:
        died[phase] += 1
        break
      runs += 1
      different += compare(expected, workdir)
      workdir = folder / f'run_{runs}'
  Run(data, workdir, environment).finish()
  runs += 1
  different += compare(expected, workdir)
  for line in different:
    print(line)
  rows = [benchmarks.Row(f'killed in {phase}', died[phase]) for phase in PHASES]
  rows.append(benchmarks.Row('finished runs', runs))
  wrong = len(different)
  return [*rows, benchmarks.Row('differences', wrong, goal=0, met=not wrong)]


def compare(expected: dict, workdir: pathlib.Path) -> list[str]:
  """What differs between a finished run and the one left alone, a line each."""
  found = outcome.left_by(workdir)
  lines = []
  for part, value in expected.items():
    if found[part] != value:
      keys = value if isinstance(value, dict) else range(max(len(value), len(found[part])))
      wrong = [k for k in keys if _at(value, k) != _at(found[part], k)]
      lines.append(f'{workdir.name}: {part} differ at {wrong[:5]}')
  steps = [(r['stage'], r['kind'], r['step']) for r in found['records']]
  if len(set(steps)) < len(steps):
    lines.append(f'{workdir.name}: metrics.jsonl has steps twice')
  return lines


def _at(values, key):
  try:
    return values[key]
  except (KeyError, IndexError):
    return None


def main(argv: Sequence[str] | None = None) -> int:
  """Entry point; exit code 1 if a run that was killed differs."""
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.kill',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--kills', type=int, default=20, metavar='N', help='default: %(default)s')
  add('--seed', type=int, default=0, help='of the moments (default: %(default)s)')
  benchmarks.add_json(parser)
  args = parser.parse_args(argv)
  with tempfile.TemporaryDirectory() as folder:
    rows = measure(args.kills, args.seed, pathlib.Path(folder))
  return 0 if benchmarks.report(rows, args.json) else 1


if __name__ == '__main__':
  sys.exit(main())
