"""Starts ``vidcap serve`` as a user does, and measures the memory of its processes."""

import contextlib
import dataclasses
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from vidcap_jax.errors import UserError

START_SECONDS = 600.0  # for the compiler on a busy machine
STOP_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Server:
  """A running server.

  Attributes:
    url: such as http://127.0.0.1:8080
    process: that was started.
    log: what it prints.
    started: when it was started, by ``time.perf_counter``.
  """

  url: str
  process: subprocess.Popen
  log: pathlib.Path
  started: float

  def wait_until_ready(self) -> float:
    """Waits until all programs are compiled; returns the seconds since the start.

    Raises:
      UserError: it ended before, or was not ready in time; its output is in the message.
    """
    _wait_for_line('ready', self.process, self.log, self.started)
    return time.perf_counter() - self.started


@contextlib.contextmanager
def start_server(folder: pathlib.Path, checkpoint: str, *flags: str) -> Iterator[Server]:
  """Runs ``vidcap serve`` on a free port until the block ends, which sends it SIGTERM.

  Args:
    folder: where its output is written to.
    checkpoint: a workdir or step folder.
    flags: more flags of the command.

  Raises:
    UserError: it ended before it listened, or did not listen in time; its output is in the message.
  """
  command = [sys.executable, '-m', 'vidcap_jax', 'serve', f'--checkpoint={checkpoint}', '--port=0']
  log, started = folder / 'log.txt', time.perf_counter()
  with log.open('w') as output:
    process = subprocess.Popen([*command, *flags], stdout=output, stderr=output)
  try:
    url = _wait_for_line(r'http://\S+', process, log, started)
    yield Server(url, process, log, started)
  finally:
    _stop(process)


def _wait_for_line(
  pattern: str, process: subprocess.Popen, log: pathlib.Path, started: float
) -> str:
  """Waits until the server has printed such a line, and returns it."""
  while True:
    text = log.read_text(errors='replace')
    if found := re.search(f'^vidcap serve: ({pattern})$', text, re.M):
      return found[1]
    if process.poll() is not None:
      raise UserError(f'vidcap serve ended with status {process.returncode}:\n{text[-3000:]}')
    if time.perf_counter() > started + START_SECONDS:
      raise UserError(f'vidcap serve was not ready in {START_SECONDS:g} s:\n{text[-3000:]}')
    time.sleep(0.1)


def _stop(process: subprocess.Popen) -> None:
  if process.poll() is None:
    process.send_signal(signal.SIGTERM)
  try:
    process.wait(STOP_SECONDS)
  except subprocess.TimeoutExpired:
    process.kill()
    process.wait()


def resident_bytes(pid: int) -> int:
  """The resident memory of a process and of all that it started, by Linux' /proc.

  Pages that processes share count for each of them.
  """
  children: dict[int, list[int]] = {}
  resident: dict[int, int] = {}
  for status in pathlib.Path('/proc').glob('[0-9]*/status'):
    try:
      text = status.read_text()
    except OSError:  # the process ended
      continue
    number = int(status.parent.name)
    parent = int(re.search(r'^PPid:\s+(\d+)', text, re.M)[1])
    children.setdefault(parent, []).append(number)
    pages = re.search(r'^VmRSS:\s+(\d+) kB', text, re.M)
    resident[number] = 1024 * int(pages[1]) if pages else 0
  if pid not in resident:
    raise UserError(f'process {pid} is not running')
  total, waiting = 0, [pid]
  while waiting:
    number = waiting.pop()
    total += resident[number]
    waiting += children.get(number, [])
  return total
