"""Training started by launch.local, when the launcher is killed."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from vidcap_jax.training.metric_log import read_metric_log

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 240


def start(data: str, workdir: pathlib.Path) -> subprocess.Popen[str]:
  config = workdir.with_name('config.py')
  config.write_text("from tests import tiny\n\nget_config = lambda: tiny.small_config('')\n")
  argv = [sys.executable, '-m', 'launch.local', '--num_processes=2', '--', '--peer_timeout=10']
  argv += [f'--config={config}', f'--config.data.dir={data}', f'--workdir={workdir}']
  environment = os.environ | {'XLA_FLAGS': '--xla_backend_optimization_level=0'}
  output = subprocess.PIPE
  return subprocess.Popen(
    argv, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True
  )


def children(process: subprocess.Popen) -> list[int]:
  tasks = pathlib.Path(f'/proc/{process.pid}/task').glob('*/children')
  return [int(child) for task in tasks for child in task.read_text().split()]


def is_running(pid: int) -> bool:
  with contextlib.suppress(OSError):
    state = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[0]
    return state != 'Z'  # a zombie that no parent has waited for
  return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != 'linux', reason='finds the processes in /proc')
@pytest.mark.timeout(2 * SECONDS)
def test_processes_do_not_outlive_a_killed_launcher(tiny_data, tmp_path):
  """They end when their output is closed, and the same command resumes the run."""
  workdir = tmp_path / 'work'
  with start(tiny_data, workdir) as killed:
    for line in killed.stdout:
      if re.match(r'\[0\] \[xe\] step 2/8', line):
        break
    workers = children(killed)
    assert len(workers) == 2
    killed.send_signal(signal.SIGKILL)
  deadline = time.monotonic() + 60
  while any(is_running(worker) for worker in workers):
    assert time.monotonic() < deadline
    time.sleep(0.1)
  assert not (workdir / 'stages.json').exists()
  with start(tiny_data, workdir) as again:
    out, _ = again.communicate(timeout=SECONDS)
  assert again.returncode == 0, out
  assert '[0] [xe] step 8/8' in out
  steps = [record['step'] for record in read_metric_log(workdir) if record['kind'] == 'train']
  assert steps == sorted(set(steps))
  assert steps[-1] == 8
