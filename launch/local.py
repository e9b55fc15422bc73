"""Several processes on this machine that train together, each on CPU devices of its own.

  python -m launch.local --num_processes=2 --devices=4 \\
      -- --config=configs/quickstart.py:runlocal --workdir=runs/two

Lines of process 1 begin with [1]. The first process that fails ends all, and its exit code is the
launcher's. SIGTERM or Ctrl-C once saves a checkpoint and ends with 143, twice kills. The same
command goes on where the run was stopped. This is what a cluster does, on one machine: for tests
and for trying a config; a machine's own accelerators need no launcher.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from launch import command


def environment(devices: int, around: Mapping[str, str]) -> dict[str, str]:
  """What is added to the surrounding environment: as many CPU devices as were asked for.

  And that lines come as they are printed, though they go through a pipe.
  """
  flags = [around.get('XLA_FLAGS', ''), f'--xla_force_host_platform_device_count={devices}']
  return {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ' '.join(flags).strip(), 'PYTHONUNBUFFERED': '1'}


def commands(arguments: Sequence[str], processes: int, port: int) -> list[list[str]]:
  """One command a process."""
  common = [f'--coordinator=localhost:{port}', f'--num_processes={processes}']
  return [
    command.training([*arguments, *common, f'--process_id={i}'], sys.executable)
    for i in range(processes)
  ]


def free_port() -> int:
  """A port that nothing listens on now."""
  with socket.socket() as probe:
    probe.bind(('localhost', 0))
    return probe.getsockname()[1]


def run(argvs: Sequence[Sequence[str]], added: Mapping[str, str], grace: float) -> int:
  """Runs processes until all have ended; returns the exit code of the first that failed, or 0.

  Args:
    argvs: a command a process.
    added: to the environment of each.
    grace: seconds between asking the others to stop and killing them, once one has failed.
  """
  processes: list[subprocess.Popen[str]] = []
  asked = 0

  def stop(*_) -> None:
    nonlocal asked
    asked += 1
    _signal(processes, signal.SIGTERM if asked == 1 else signal.SIGKILL)

  # Before the first starts, so that none is left behind.
  previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
  readers = []
  try:
    for i, argv in enumerate(argvs):
      # A session of its own: Ctrl-C reaches this process alone, which asks each once.
      process = subprocess.Popen(
        argv,
        env={**os.environ, **added},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors='replace',
        start_new_session=True,
      )
      processes.append(process)
      if asked:
        _signal([process], signal.SIGTERM)
      for pipe, stream in (process.stdout, sys.stdout), (process.stderr, sys.stderr):
        assert pipe is not None
        readers.append(threading.Thread(target=_copy, args=(pipe, stream, f'[{i}] ')))
        readers[-1].start()
    return _wait(processes, grace)
  finally:
    for process in processes:
      # With what it started, which may hold its output open.
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for reader in readers:
      reader.join()
    for number, handler in previous.items():
      signal.signal(number, handler)


def _copy(pipe: IO[str], stream: IO[str], prefix: str) -> None:
  for line in pipe:
    stream.write(prefix + line.rstrip('\n') + '\n')  # one write: lines of two don't mix
    stream.flush()


def _signal(processes: Sequence[subprocess.Popen], number: int) -> None:
  for process in processes:
    if process.poll() is None:
      process.send_signal(number)


def _wait(
  processes: Sequence[subprocess.Popen], grace: float, now: Callable[[], float] = time.monotonic
) -> int:
  """The exit code of all; a signal's number + 128 for what a signal ended, as shells have it."""
  first, deadline = 0, float('inf')
  while any(process.poll() is None for process in processes):
    codes = [process.poll() for process in processes]
    # One that was preempted is no failure: the others are about to end in the same way.
    failed = [i for i, code in enumerate(codes) if code not in (None, 0, command.PREEMPTED)]
    if failed and not first:
      first = _code(codes[failed[0]])
      print(f'process {failed[0]} ended with {first}: the others are stopped', file=sys.stderr)
      _signal(processes, signal.SIGTERM)
      deadline = now() + grace
    if now() > deadline:
      _signal(processes, signal.SIGKILL)
    time.sleep(0.05)
  ended = [_code(process.returncode) for process in processes]
  return first or next((c for c in ended if c not in (0, command.PREEMPTED)), max(ended))


def _code(returned: int | None) -> int:
  assert returned is not None
  return 128 - returned if returned < 0 else returned


def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  made = command.parser('launch.local', __doc__)
  made.add_argument('--num_processes', type=int, default=2, help='processes (default: %(default)s)')
  made.add_argument('--devices', type=int, default=1, help='of each (default: %(default)s)')
  made.add_argument('--port', type=int, help='that they meet at (default: one that is free)')
  made.add_argument(
    '--grace',
    type=float,
    default=10.0,
    help='seconds for the others to end once one failed, before they are killed (default: 10)',
  )
  flags, arguments = command.parse(made, argv)
  command.require(made, arguments)
  if min(flags.num_processes, flags.devices) < 1:
    made.error('--num_processes and --devices are 1 or more')
  added = environment(flags.devices, os.environ)
  argvs = commands(arguments, flags.num_processes, flags.port or free_port())
  if flags.dry_run:
    for words in argvs:
      print(command.shell(['env', *(f'{k}={v}' for k, v in added.items()), *words]))
    return 0
  return run(argvs, added, flags.grace)


if __name__ == '__main__':
  sys.exit(main())
