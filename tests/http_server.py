"""Starts ``vidcap serve`` for tests, and looks at its processes, metrics and files."""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import time

from benchmarks import server_process
from tests import http_forms

START_SECONDS = 300


@dataclasses.dataclass(frozen=True)
class RunningServer(server_process.Server):
  """A server in a process of its own.

  Attributes:
    temp: the folder for uploads.
  """

  temp: pathlib.Path

  def workers(self) -> list[int]:
    """Processes that decode files: those that it started."""
    tasks = pathlib.Path(f'/proc/{self.process.pid}/task').glob('*/children')
    started = [pid for task in tasks for pid in task.read_text().split()]
    names = {int(pid): pathlib.Path(f'/proc/{pid}/cmdline').read_bytes() for pid in started}
    return [pid for pid, name in names.items() if b'spawn_main' in name]

  @contextlib.contextmanager
  def stopped_workers(self):
    """Files wait to be decoded inside the block."""
    workers = self.workers()
    for worker in workers:
      os.kill(worker, signal.SIGSTOP)
    try:
      yield workers
    finally:
      for worker in workers:
        with contextlib.suppress(ProcessLookupError):
          os.kill(worker, signal.SIGCONT)

  def metric(self, name: str) -> float:
    """The value of a metric, with its labels."""
    text = http_forms.get(self.url, '/metrics').body.decode()
    return float(re.search(rf'^{re.escape(name)} (\S+)$', text, re.M)[1])

  def wait_for(self, name: str, value: float) -> None:
    """Waits until a metric has a value."""
    wait_until(lambda: self.metric(name) == value)

  def uploads(self) -> list[pathlib.Path]:
    """Files in the folder for uploads, without those that a worker that is starting reads."""
    found = [path for path in self.temp.rglob('*') if path.is_file()]
    return [path for path in found if not path.parent.name.startswith('vidcap_serve_start_')]


def wait_until(holds, seconds: float = 60) -> None:
  deadline = time.monotonic() + seconds
  while not holds():
    assert time.monotonic() < deadline, 'not within the time'
    time.sleep(0.05)


@contextlib.contextmanager
def start_server(folder: pathlib.Path, checkpoint: pathlib.Path, *flags: str):
  """Starts ``vidcap serve``, and goes on when it listens; ends it by SIGTERM."""
  temp = folder / 'temp'
  temp.mkdir()
  with server_process.start_server(folder, str(checkpoint), f'--temp={temp}', *flags) as server:
    yield RunningServer(**vars(server), temp=temp)
