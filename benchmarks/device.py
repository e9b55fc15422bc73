"""What a GPU or TPU does in ten minutes: the times that --mode=compile estimates, measured.

  python -m benchmarks.device --json=device.json
  python -m benchmarks.device --peer=updown_torch.py --peer_python=venv-with-torch/bin/python

Steps of cross entropy and self-critical training, the reward, greedy captions and beam search of
the VATEX paper's model, the same operations of a PyTorch program's model beside that program
(benchmarks/peer.py), and a step of each other paper, on the first device, with random batches of
the configs' sizes. The most important rows come first. After --minutes the command stops with the
rows that it has; a program that fails, does not fit or takes a third of the time is a row too.
Compiled programs are kept, so that a second run gets further.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks import add_json
from benchmarks.device_worker import SMALL_SIZES, Target
from benchmarks.peer import PEER_NAMES, Peer, flags_of
from benchmarks.programs import Sizes
from vidcap_jax import command_errors
from vidcap_jax.errors import UserError

VATEX = 'configs/vatex_fusion.py:temporal_rl'
PEER_PROGRAMS = ('xe', 'self_critical', 'beam', 'greedy')
FIRST = (
  Target('VATEX, cross entropy', 'step', VATEX, 'temporal'),
  Target('VATEX, self-critical', 'step', VATEX, 'temporal_rl'),
  Target('VATEX, reward of a step', 'reward', VATEX, 'temporal_rl'),
  Target('VATEX, beam', 'beam', VATEX, 'temporal'),
  Target('VATEX, greedy', 'greedy', VATEX, 'temporal'),
  *(Target(f"the peer's model, {name}", name) for name in PEER_PROGRAMS),
)
LAST = (
  Target('STaTS, cross entropy', 'step', 'configs/msrvtt_stats.py', 'xe'),
  Target('Global2Local, cross entropy', 'step', 'configs/global2local.py'),
  Target('refocus, both passes and the reward', 'step', 'configs/msrvtt_refocus.py', 'joint'),
  Target('VATEX, cross entropy, bfloat16', 'step', VATEX, 'temporal', 'bfloat16'),
  Target('VATEX, self-critical, bfloat16', 'step', VATEX, 'temporal_rl', 'bfloat16'),
  Target('dualAFR, cross entropy', 'step', 'configs/dual_afr.py'),
  Target('STaTS, beam', 'beam', 'configs/msrvtt_stats.py', 'xe'),
  Target('Global2Local, beam', 'beam', 'configs/global2local.py'),
  Target('refocus, beam', 'beam', 'configs/msrvtt_refocus.py', 'joint'),
  Target('dualAFR, beam', 'beam', 'configs/dual_afr.py'),
)
_WORKER = 'benchmarks.device_worker'
_SHARE = 1 / 3  # of the time, that one program may take


@dataclasses.dataclass
class Measured:
  """The device, and the rows so far; ``write`` keeps them as JSON."""

  json_file: str | None
  device: dict[str, Any] = dataclasses.field(default_factory=dict)
  rows: list[dict[str, Any]] = dataclasses.field(default_factory=list)

  def add(self, row: dict[str, Any]) -> None:
    """Adds a row, prints it, and writes all rows."""
    self.rows.append(row)
    print(line_of(row), flush=True)
    self.write()

  def write(self) -> None:
    """Writes the JSON file, if there is one."""
    if self.json_file:
      text = json.dumps({'device': self.device, 'rows': self.rows}, indent=1)
      pathlib.Path(self.json_file).write_text(text + '\n')

  def median(self, name: str) -> float | None:
    """Seconds of a row; None without it."""
    return next((row.get('median') for row in self.rows if row['name'] == name), None)


def line_of(row: dict[str, Any]) -> str:
  """A row as a line of text."""
  parts = []
  if 'median' in row:
    parts.append(f'{1e3 * row["median"]:.4g} ms, {row["captions_per_s"]:,.0f} captions/s')
  if 'share_of_peak' in row:
    parts.append(f'{100 * row["share_of_peak"]:.1f} % of peak')
  if row.get('memory'):
    parts.append(f'{row["memory"]["total"] / 2**20:,.0f} MiB')
  if 'compile_seconds' in row:
    parts.append(f'compiled in {row["compile_seconds"]:.0f} s')
  if 'problem' in row:
    parts.append(row['problem'])
  return f'{row["name"]}: {"; ".join(parts)}'


def measure(
  targets: Sequence[Target],
  small: bool,
  deadline: float,
  limit: float,
  measured: Measured,
  worker: str = _WORKER,
) -> None:
  """Measures targets in a process, which is started again after one that ends or hangs it.

  Args:
    targets: in the order in which they are measured.
    small: whether sizes are tiny.
    deadline: by ``time.monotonic``; after it, targets become rows without times.
    limit: seconds of a target.
    measured: gets the rows.
    worker: the process's module.
  """
  left = list(targets)
  while left:
    if time.monotonic() >= deadline:
      for target in left:
        measured.add({'name': target.name, 'problem': 'not measured: the time was over'})
      return
    with _process(left, small, worker) as receive:
      reason = _receive(left, deadline, limit, measured, receive)
    if left and time.monotonic() < deadline:
      measured.add({**vars(left.pop(0)), 'problem': reason})


def _receive(
  left: list[Target],
  deadline: float,
  limit: float,
  measured: Measured,
  receive: Callable[[float], dict | str],
) -> str:
  """Takes targets off the list as their rows arrive; why the others have none."""
  while True:
    last = time.monotonic() + limit
    found = receive(min(last, deadline))
    if isinstance(found, str):
      return found
    if 'platform' in found:
      measured.device = found
      print(f'{found["device"]} ({found["chip"] or "no published peak"})', flush=True)
      continue
    measured.add({**vars(left.pop(0)), **found})
    if not left:
      return ''


@contextlib.contextmanager
def _process(
  targets: Sequence[Target], small: bool, worker: str
) -> Iterator[Callable[[float], dict | str]]:
  """A worker; what is yielded waits until a time for its next line, or returns why none comes."""
  request = json.dumps({'targets': [vars(target) for target in targets], 'small': small})
  process = subprocess.Popen(
    [sys.executable, '-m', worker, request],
    # The PyTorch program needs memory of the device too.
    env={'XLA_PYTHON_CLIENT_PREALLOCATE': 'false', **os.environ},
    stdout=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )
  lines: queue.Queue[str | None] = queue.Queue()

  def read():
    assert process.stdout is not None
    for line in process.stdout:
      if line.startswith('{'):
        lines.put(line)
    lines.put(None)

  def receive(until: float) -> dict | str:
    try:
      line = lines.get(timeout=max(0.0, until - time.monotonic()))
    except queue.Empty:
      return 'ended: it took too long'
    return _reason(process.wait()) if line is None else json.loads(line)

  reader = threading.Thread(target=read, daemon=True)
  reader.start()
  try:
    yield receive
  finally:
    with contextlib.suppress(ProcessLookupError):
      os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    reader.join()


def _reason(code: int) -> str:
  """Why a process has sent no row."""
  if code >= 0:
    return f'the process ended with exit code {code}; its last lines on stderr say why'
  lacking = '; this machine may lack memory' if -code == signal.SIGKILL else ''
  return f'the process ended by {signal.Signals(-code).name}{lacking}'


def measure_peer(options: argparse.Namespace, deadline: float, measured: Measured) -> None:
  """Adds the rows of the PyTorch program on the same device."""
  device = {'gpu': 'cuda', 'cpu': 'cpu'}.get(measured.device.get('platform', ''))
  if device is None:
    measured.add({'name': 'the peer', 'problem': 'PyTorch has no such device'})
    return
  sizes = SMALL_SIZES if options.small else Sizes()
  peer = Peer((options.peer_python, options.peer), flags_of(sizes, device))
  for program in PEER_PROGRAMS:
    name, op = f'the peer, {program}', PEER_NAMES.get(program, program)
    left = deadline - time.monotonic()
    if left <= 0:
      measured.add({'name': name, 'problem': 'not measured: the time was over'})
      continue
    try:
      peer.run((op,), options.variants, 9, min(left, 60 * options.minutes * _SHARE))
      variant, times = peer.best(op)
    except (UserError, ValueError) as error:
      measured.add({'name': name, 'problem': str(error)})
      continue
    rate = {'median': times[0], 'captions_per_s': sizes.batch / times[0]}
    measured.add({'name': name, 'variant': variant, 'batch': sizes.batch, **rate})


def comparisons(measured: Measured) -> list[str]:
  """Lines that compare rows: the reward's share, self-critical to cross entropy, the peer."""
  lines = []
  pairs = [
    ("the reward's share of a self-critical step", FIRST[2].name, FIRST[1].name),
    ('self-critical / cross entropy', FIRST[1].name, FIRST[0].name),
    *(
      (f'{name}, times faster than the peer', f'the peer, {name}', f"the peer's model, {name}")
      for name in PEER_PROGRAMS
    ),
  ]
  for label, above, below in pairs:
    values = measured.median(above), measured.median(below)
    if values[0] is not None and values[1]:
      lines.append(f'{label}: {values[0] / values[1]:.3g}')
  return lines


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.device',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--minutes', type=float, default=9.0, help='when to stop (%(default)s)')
  add('--small', action='store_true', help='tiny sizes, to try the command on a CPU')
  add('--peer', metavar='FILE', help='PyTorch program, see benchmarks/peer.py')
  add('--peer_python', default=sys.executable, metavar='PYTHON', help='interpreter with torch')
  add(
    '--variants', default='cell,split,late', type=lambda text: text.split(','),
    help='of the peer; the fastest is compared (%(default)s)',
  )  # fmt: skip
  add_json(parser)
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> int:
  """The command; 1 if no row has a time."""
  parser = _parser()
  options = parser.parse_args(arguments)
  if options.minutes <= 0:
    parser.error(f'--minutes={options.minutes:g}: more than 0')
  if options.peer and not pathlib.Path(options.peer).is_file():
    parser.error(f'--peer={options.peer}: no such file')
  measured = Measured(options.json)
  deadline = time.monotonic() + 60 * options.minutes
  limit = 60 * options.minutes * _SHARE
  measure(FIRST, options.small, deadline, limit, measured)
  if options.peer:
    measure_peer(options, deadline, measured)
  measure(LAST, options.small, deadline, limit, measured)
  for line in comparisons(measured):
    print(line)
  return 0 if any('median' in row for row in measured.rows) else 1


if __name__ == '__main__':
  sys.exit(main())
