"""Starts one job as several processes on this machine, each with its own CPU devices.

  python -m launch.local --num_processes=2 --devices=4 \\
      -- --config=configs/quickstart.py:runlocal --workdir=runs/two

Lines of process 1 begin with [1]. When a process fails, all are stopped, and its exit code is the
launcher's. SIGTERM or Ctrl-C once saves a checkpoint and ends with 143, twice kills. The same
command resumes the run. A closed pipe, as of `| head`, counts as SIGTERM. The launcher is for tests
and for trying a config as on a cluster; the GPUs or TPU chips of one machine need no launcher.
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
from vidcap_jax import command_errors


def environment(devices: int, around: Mapping[str, str]) -> dict[str, str]:
  """The environment variables of each process, besides those ``around``.

  They set the number of CPU devices, and make Python print lines at once, though through a pipe.
  """
  flags = [around.get('XLA_FLAGS', ''), f'--xla_force_host_platform_device_count={devices}']
  return {'JAX_PLATFORMS': 'cpu', 'XLA_FLAGS': ' '.join(flags).strip(), 'PYTHONUNBUFFERED': '1'}


def commands(arguments: Sequence[str], processes: int, port: int) -> list[list[str]]:
  """The command of each process."""
  common = [f'--coordinator=localhost:{port}', f'--num_processes={processes}']
  return [
    command.main_command([*arguments, *common, f'--process_id={i}'], sys.executable)
    for i in range(processes)
  ]


def free_port() -> int:
  """A port that is free now."""
  with socket.socket() as probe:
    probe.bind(('localhost', 0))
    return probe.getsockname()[1]


def run(argvs: Sequence[Sequence[str]], added: Mapping[str, str], grace: float) -> int:
  """Runs processes until all have ended; returns the exit code of the first that failed, or 0.

  Args:
    argvs: the command of each process.
    added: environment variables for each.
    grace: seconds from SIGTERM to SIGKILL for the other processes, once one has failed.
  """
  processes: list[subprocess.Popen[str]] = []
  stops = 0

  def stop(*_) -> None:
    nonlocal stops
    stops += 1
    _signal(processes, signal.SIGTERM if stops == 1 else signal.SIGKILL)

  # Set before the first process starts, so that no signal leaves processes behind.
  previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
  readers = []
  closed = threading.Event()
  try:
    for i, argv in enumerate(argvs):
      # In a session of its own, so that Ctrl-C reaches only this process, which signals each once.
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
      if stops:
        _signal([process], signal.SIGTERM)
      for pipe, stream in (process.stdout, sys.stdout), (process.stderr, sys.stderr):
        assert pipe is not None
        readers.append(threading.Thread(target=_copy, args=(pipe, stream, f'[{i}] ', closed)))
        readers[-1].start()
    code = _wait(processes, grace, closed)
  finally:
    for process in processes:
      # The whole group: its children may hold its output open.
      with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for reader in readers:
      reader.join()
    for number, handler in previous.items():
      signal.signal(number, handler)
  if closed.is_set():
    raise BrokenPipeError('nobody reads the output')
  return code


def _copy(pipe: IO[str], stream: IO[str], prefix: str, closed: threading.Event) -> None:
  """Copies lines until the pipe ends; sets ``closed`` once nobody reads the stream any more."""
  is_open = True
  for line in pipe:  # to the end in any case, since a process waits while its pipe is full
    if not is_open:
      continue
    try:
      # One write, so that lines of two processes don't mix.
      stream.write(prefix + line.rstrip('\n') + '\n')
      stream.flush()
    except BrokenPipeError:
      is_open = False
      closed.set()


def _signal(processes: Sequence[subprocess.Popen], number: int) -> None:
  for process in processes:
    if process.poll() is None:
      process.send_signal(number)


def _wait(
  processes: Sequence[subprocess.Popen],
  grace: float,
  closed: threading.Event,
  now: Callable[[], float] = time.monotonic,
) -> int:
  """Waits for all processes; returns the exit code of the job, for signals as shells report it.

  Args:
    processes: of the job.
    grace: see ``run``.
    closed: set once nobody reads the output, which stops the processes.
    now: a clock.
  """
  failure, deadline, stopped = 0, float('inf'), False
  while any(process.poll() is None for process in processes):
    if closed.is_set() and not stopped:
      stopped = True
      _signal(processes, signal.SIGTERM)
    codes = [process.poll() for process in processes]
    # Preemption is no failure: the other processes are about to end in the same way.
    failed = [i for i, code in enumerate(codes) if code not in (None, 0, command.PREEMPTED)]
    if failed and not failure:
      failure = _code(codes[failed[0]])
      print(f'process {failed[0]} ended with {failure}; stopping the others', file=sys.stderr)
      _signal(processes, signal.SIGTERM)
      deadline = now() + grace
    if now() > deadline:
      _signal(processes, signal.SIGKILL)
    time.sleep(0.05)
  ended = [_code(process.returncode) for process in processes]
  return failure or next((code for code in ended if code not in (0, command.PREEMPTED)), max(ended))


def _code(returned: int | None) -> int:
  """The exit code that a shell reports: 128 + N after signal N."""
  assert returned is not None
  return 128 - returned if returned < 0 else returned


@command_errors.exit_on_error()
def main(argv: Sequence[str] | None = None) -> int:
  """The launcher; returns its exit code."""
  parser = command.make_parser('launch.local', __doc__)
  parser.add_argument(
    '--num_processes', type=int, default=2, help='number of processes (default: %(default)s)'
  )
  parser.add_argument(
    '--devices', type=int, default=1, help='CPU devices of each process (default: %(default)s)'
  )
  parser.add_argument('--port', type=int, help='of the coordinator (default: a free one)')
  parser.add_argument(
    '--grace',
    type=float,
    default=10.0,
    help='seconds from SIGTERM to SIGKILL once a process failed (default: %(default)s)',
  )
  flags, arguments = command.parse(parser, argv)
  command.require(parser, arguments)
  if min(flags.num_processes, flags.devices) < 1:
    parser.error('--num_processes and --devices must be at least 1')
  added = environment(flags.devices, os.environ)
  argvs = commands(arguments, flags.num_processes, flags.port or free_port())
  if flags.dry_run:
    for words in argvs:
      print(command.shell(['env', *(f'{k}={v}' for k, v in added.items()), *words]))
    return 0
  return run(argvs, added, flags.grace)


if __name__ == '__main__':
  sys.exit(main())
