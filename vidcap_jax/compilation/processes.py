"""Runs a job in a process of its own, since compilers may crash, hang or take all memory."""

import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping

from vidcap_jax.compilation.jobs import Job
from vidcap_jax.compilation.report import Report, from_dict

_MODULE = 'vidcap_jax.compilation.worker'


def run_job(
  job: Job,
  environment: Mapping[str, str],
  timeout: float,
  tick: Callable[[float], None],
  module: str = _MODULE,
) -> Report:
  """Compiles a job's program; an error, a crash or too long a time becomes a report too.

  Args:
    job: what to compile.
    environment: variables of the process, beside those of this one.
    timeout: seconds after which it is killed.
    tick: called a few times a second with the seconds since the start.
    module: the process's program.
  """
  with tempfile.TemporaryDirectory() as folder:
    job_file, report_file, log = (pathlib.Path(folder, n) for n in ('job', 'report', 'log'))
    job_file.write_bytes(pickle.dumps(job))
    files = str(job_file), str(report_file)
    command = [sys.executable, '-m', module, *files, str(os.getpid())]
    with log.open('wb') as output:
      process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
      )
    try:
      code = _wait(process, timeout, tick)
    finally:
      _kill(process)
    if report_file.is_file() and not code:
      return from_dict(json.loads(report_file.read_text()))
    error = _reason(code, timeout, log.read_text(errors='replace'))
    return Report(job.stage, job.program, job.length, job.rows, error=error)


def _wait(process: subprocess.Popen, timeout: float, tick: Callable[[float], None]) -> int | None:
  """The exit code; None after too long a time."""
  start = time.monotonic()
  while (seconds := time.monotonic() - start) < timeout:
    tick(seconds)
    try:
      return process.wait(min(0.25, timeout))
    except subprocess.TimeoutExpired:
      pass
  return None


def _kill(process: subprocess.Popen) -> None:
  """Ends a process with those that it started."""
  if process.poll() is None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _reason(code: int | None, timeout: float, log: str) -> str:
  """Why a process left no report, in one line."""
  if code is None:
    return f'not compiled after {timeout:g} s; allow more with --compile_timeout'
  if code < 0:
    name = signal.Signals(-code).name
    lacking = ': this machine may lack memory' if -code == signal.SIGKILL else ''
    return f'the compiler ended by {name}{lacking}'
  lines = [line.strip() for line in log.splitlines() if line.strip()]
  return f'the compiler ended with code {code}: {lines[-1] if lines else "no message"}'
