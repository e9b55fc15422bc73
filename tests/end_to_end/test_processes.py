"""The same run in one process and in several, and how the processes of a job end."""

import functools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import jax
import numpy as np
import pytest

from benchmarks import run_results
from tests import tiny
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.distributed.watchdog import LOST

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 400  # time limit of a job; on a busy machine compiling takes most of it


def environment(devices: int) -> dict[str, str]:
  flags = f'--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0'
  return {**os.environ, 'PYTHONPATH': str(ROOT), 'XLA_FLAGS': flags}


def free_port() -> int:
  with socket.socket() as probe:
    probe.bind(('localhost', 0))
    return probe.getsockname()[1]


class Job:
  """The processes of one job; their outputs go to files.

  Attributes:
    processes: the running processes, in the order of their commands.
    codes: their exit codes, after ``wait``.
  """

  def __init__(self, argvs: Sequence[Sequence[str]], folder: pathlib.Path, devices: int):
    self._deadline = time.monotonic() + SECONDS
    self._outputs = [folder / f'output_{index}' for index in range(len(argvs))]
    self.codes: list[int] = []
    self.processes = []
    for argv, output in zip(argvs, self._outputs):
      with output.open('w') as file:
        self.processes.append(
          subprocess.Popen(
            [sys.executable, '-u', *argv], env=environment(devices), stdout=file, stderr=file
          )
        )

  def __enter__(self) -> 'Job':
    return self

  def __exit__(self, *_) -> None:
    for process in self.processes:
      process.kill()
      process.wait()

  def outputs(self) -> list[str]:
    return [output.read_text() for output in self._outputs]

  def wait_until(self, text: str, index: int) -> None:
    """Waits until a process has printed the text; fails if it ends before."""
    while text not in self.outputs()[index]:
      assert self.processes[index].poll() is None, self.outputs()
      assert time.monotonic() < self._deadline, self.outputs()
      time.sleep(0.05)

  def wait(self, without: int | None = None) -> list[str]:
    """Waits until all have ended, one excepted if named; returns the outputs of all."""
    waited = [process for i, process in enumerate(self.processes) if i != without]
    try:
      self.codes = [p.wait(max(1, self._deadline - time.monotonic())) for p in waited]
    except subprocess.TimeoutExpired:
      pytest.fail('\n'.join(self.outputs()))
    return self.outputs()


def training(config: str, data: str, workdir, processes: int, devices: int, *flags: str):
  """Training in ``processes`` processes, on ``devices`` devices each."""
  port = free_port()
  common = [
    str(ROOT / 'tests' / 'end_to_end' / 'two_processes.py'),
    f'--config={ROOT / "tests" / "end_to_end" / "two_processes.py"}:{config}',
    f'--config.data.dir={data}',
    f'--workdir={workdir}',
    *flags,
  ]
  if processes == 1:
    return Job([common], workdir.parent, devices)
  common += [f'--coordinator=localhost:{port}', f'--num_processes={processes}']
  argvs = [[*common, f'--process_id={index}'] for index in range(processes)]
  return Job(argvs, workdir.parent, devices)


def arrays(workdir):
  (step,) = checkpoint.steps(workdir / 'checkpoints' / 'xe')[-1:]
  path = workdir / 'checkpoints' / 'xe' / str(step)
  return step, jax.tree.leaves_with_path(checkpoint.read_params_as_saved(path))


def assert_same_run(one, other):
  """Equal captions, and equal parameters and losses but for rounding."""
  (step, expected), (found_step, found) = arrays(one), arrays(other)
  assert step == found_step
  for (name, a), (other_name, b) in zip(expected, found, strict=True):
    assert name == other_name
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=jax.tree_util.keystr(name))
  left, right = run_results.read_run(one), run_results.read_run(other)
  assert [(r['kind'], r['step']) for r in left['records']] == [
    (r['kind'], r['step']) for r in right['records']
  ]
  losses = [[r['loss'] for r in run['records'] if 'loss' in r] for run in (left, right)]
  np.testing.assert_allclose(*losses, rtol=1e-5)
  captions = [
    {file: [(c['video_id'], c['caption']) for c in json.loads(text)] for file, text in run.items()}
    for run in (left['captions'], right['captions'])
  ]
  assert captions[0] == captions[1] != {}


@pytest.mark.timeout(2 * SECONDS + 60)
def test_two_processes_train_as_one(tiny_data, tmp_path):
  """SIGTERM to one process stops both after the same step, and the same command resumes."""
  with tiny.without_java():
    one_process = tiny.run(tiny.small_config(tiny_data), tmp_path / 'one')
  workdir = tmp_path / 'two'
  start = functools.partial(training, 'small_config', tiny_data, workdir, 2, 1)
  with start() as job:
    job.wait_until('step 2/8', 0)
    job.processes[1].send_signal(signal.SIGTERM)
    main, other = job.wait()
    assert job.codes == [143, 143], (main, other)
  (stopped,) = re.findall(r'SIGTERM: saved step (\d+) of stage', main)
  assert f'SIGTERM: saved step {stopped} of stage' in other
  assert 2 <= int(stopped) < 8
  assert (
    '[xe] 2 processes, 2 devices (cpu), mesh data=2 x model=1; shards of a batch by process: 0: 0, '
    '1: 1; '
  ) in main
  assert 'Traceback' not in main + other

  with start() as job:
    main, other = job.wait()
    assert job.codes == [0, 0], (main, other)
  assert f'restored step {stopped} ' in main
  assert 'step 8/8' in main
  assert '[xe]' not in other  # process 0 alone logs, writes records and captions, and scores
  assert_same_run(one_process, workdir)


@pytest.mark.slow
@pytest.mark.timeout(4 * SECONDS)
def test_a_run_resumes_with_other_processes_and_shardings(tiny_data, tmp_path):
  with tiny.without_java():
    one_process = tiny.run(tiny.small_config(tiny_data), tmp_path / 'one')
  workdir = tmp_path / 'moved'
  # Two processes that share one copy of the model; one process; four, each with a part of every
  # array and of the features.
  layouts = [
    (2, 1, '--config.mesh.model=2', '--config.mesh.params=vocabulary'),
    (1, 2, '--config.data.cache=host'),
    (4, 1, '--config.mesh.params=full', '--config.data.cache=device'),
  ]
  for number, (processes, devices, *flags) in enumerate(layouts):
    stop = 3 * (number + 1)
    with training('small_config', tiny_data, workdir, processes, devices, *flags) as job:
      if stop < 8:
        job.wait_until(f'step {stop - 1}/8', 0)
        job.processes[-1].send_signal(signal.SIGTERM)
      outputs = job.wait()
      assert set(job.codes) == ({143} if stop < 8 else {0}), outputs
  assert_same_run(one_process, workdir)


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
def test_two_processes_fuse_as_one(tiny_data, tmp_path):
  with tiny.unscored_by_java():
    one_process = tiny.run(tiny.fused_config(tiny_data), tmp_path / 'one')
  with training('fused_config', tiny_data, tmp_path / 'two', 2, 4) as job:
    outputs = job.wait()
    assert job.codes == [0, 0], outputs
  left, right = (
    json.loads((workdir / 'eval' / 'val' / 'captions.json').read_text())
    for workdir in (one_process, tmp_path / 'two')
  )
  for a, b in zip(left, right, strict=True):
    assert (a['video_id'], a['caption'], a['chosen']) == (b['video_id'], b['caption'], b['chosen'])
  assert len(left) == 3


# ---------------------------------------------------------------- what ends a job

TIMEOUT = 10


def signal_one(index: int, signal_number: int, tmp_path) -> tuple[float, int, str]:
  """Sends a signal to one of two processes while the other waits for it in a collective.

  Returns the seconds after which the other one ended, its exit code and its output.
  """
  script, port = str(ROOT / 'tests' / 'end_to_end' / 'waiting_process.py'), str(free_port())
  argvs = [[script, port, '2', str(i), str(TIMEOUT), 'waits'] for i in range(2)]
  with Job(argvs, tmp_path, 1) as job:
    for i in range(2):
      job.wait_until('ready', i)
    time.sleep(1)
    job.processes[index].send_signal(signal_number)
    sent = time.monotonic()
    outputs = job.wait(without=index)
    return time.monotonic() - sent, job.codes[0], outputs[1 - index]


@pytest.mark.timeout(SECONDS + 60)
def test_a_process_that_stops_ends_the_job(tmp_path):
  seconds, code, output = signal_one(1, signal.SIGSTOP, tmp_path)
  assert seconds < 2 * TIMEOUT
  assert code == LOST
  assert 'process 0 of 2: ended, because process 1 sent no heartbeat for 6 s' in output
  stacks = output.partition('stacks of all threads')[2]
  assert re.search(r'waiting_process.py", line \d+ in <module>', stacks)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.parametrize(
  ('index', 'signal_number', 'codes'),
  [
    (1, signal.SIGKILL, {LOST}),
    (0, signal.SIGSTOP, {LOST}),
    (0, signal.SIGKILL, {LOST, -signal.SIGABRT}),  # the coordination service goes with it
  ],
)
def test_a_process_that_dies_ends_the_job(index, signal_number, codes, tmp_path):
  seconds, code, output = signal_one(index, signal_number, tmp_path)
  assert seconds < 2 * TIMEOUT
  assert code in codes
  if code == LOST:
    assert f'process {index} sent no heartbeat' in output


@pytest.mark.timeout(SECONDS + 60)
def test_a_process_that_fails_ends_the_job(tmp_path):
  script, port = str(ROOT / 'tests' / 'end_to_end' / 'waiting_process.py'), str(free_port())
  argvs = [[script, port, '2', str(i), '60', 'fails'] for i in range(2)]
  with Job(argvs, tmp_path, 1) as job:
    main, other = job.wait()
  assert job.codes == [1, 1]
  assert 'process 1 of 2: error: v7 is broken\n' in other
  assert 'process 0 of 2: ended, because process 1 failed: v7 is broken\n' in main


@pytest.mark.timeout(SECONDS + 60)
def test_a_main_thread_that_hangs_ends_the_job(tmp_path):
  """The heartbeats of both processes go on."""
  script, port = str(ROOT / 'tests' / 'end_to_end' / 'waiting_process.py'), str(free_port())
  argvs = [[script, port, '2', str(i), '60', 'hangs'] for i in range(2)]
  with Job(argvs, tmp_path, 1) as job:
    outputs = job.wait()
  assert job.codes == [LOST, LOST]
  for output in outputs:
    assert re.search(r'process [01] makes no progress, after \d+ s of stepping', output)
    assert re.search(r'waiting_process.py", line \d+ in <module>', output)


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_processes_that_cannot_connect(tiny_data, tmp_path):
  flags = [f'--coordinator=localhost:{free_port()}', '--num_processes=2', '--process_id=1']
  with training(
    'small_config', tiny_data, tmp_path / 'work', 1, 1, *flags, '--start_timeout=3'
  ) as job:
    (output,) = job.wait()
  assert job.codes == [1]
  assert 'error: process 1 of 2 could not connect to localhost:' in output
