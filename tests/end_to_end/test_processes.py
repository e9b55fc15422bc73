"""The same run in one process and in several, and how several end together."""

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

from benchmarks import outcome
from tests import tiny
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.distributed.watchdog import LOST

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 400  # of a job; on a busy machine most of it goes into compiling


def environment(devices: int) -> dict[str, str]:
  flags = f'--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0'
  return {**os.environ, 'PYTHONPATH': str(ROOT), 'XLA_FLAGS': flags}


def free_port() -> int:
  with socket.socket() as probe:
    probe.bind(('localhost', 0))
    return probe.getsockname()[1]


class Together:
  """Processes of one job, started together; their outputs go to files.

  Attributes:
    running: a process each.
    codes: their exit codes, after ``wait``.
  """

  def __init__(self, argvs: Sequence[Sequence[str]], folder: pathlib.Path, devices: int):
    self._deadline = time.monotonic() + SECONDS
    self._outputs = [folder / f'output_{index}' for index in range(len(argvs))]
    self.codes: list[int] = []
    self.running = []
    for argv, output in zip(argvs, self._outputs):
      with output.open('w') as file:
        self.running.append(
          subprocess.Popen(
            [sys.executable, '-u', *argv], env=environment(devices), stdout=file, stderr=file
          )
        )

  def __enter__(self) -> 'Together':
    return self

  def __exit__(self, *_) -> None:
    for process in self.running:
      process.kill()
      process.wait()

  def said(self) -> list[str]:
    return [output.read_text() for output in self._outputs]

  def wait_until(self, text: str, index: int) -> None:
    """Until a process has said something; fails when it has ended without."""
    while text not in self.said()[index]:
      assert self.running[index].poll() is None, self.said()
      assert time.monotonic() < self._deadline, self.said()
      time.sleep(0.05)

  def wait(self, but: int | None = None) -> list[str]:
    """Until all have ended, but perhaps one; what they said."""
    waited = [process for i, process in enumerate(self.running) if i != but]
    try:
      self.codes = [p.wait(max(1, self._deadline - time.monotonic())) for p in waited]
    except subprocess.TimeoutExpired:
      pytest.fail('\n'.join(self.said()))
    return self.said()


def training(config: str, data: str, workdir, processes: int, devices: int, *flags: str):
  """The command in so many processes, on so many devices each."""
  port = free_port()
  common = [
    str(ROOT / 'tests' / 'end_to_end' / 'two_processes.py'),
    f'--config={ROOT / "tests" / "end_to_end" / "two_processes.py"}:{config}',
    f'--config.data.dir={data}',
    f'--workdir={workdir}',
    *flags,
  ]
  if processes == 1:
    return Together([common], workdir.parent, devices)
  common += [f'--coordinator=localhost:{port}', f'--num_processes={processes}']
  argvs = [[*common, f'--process_id={index}'] for index in range(processes)]
  return Together(argvs, workdir.parent, devices)


def arrays(workdir):
  (step,) = checkpoint.steps(workdir / 'checkpoints' / 'xe')[-1:]
  path = workdir / 'checkpoints' / 'xe' / str(step)
  return step, jax.tree.leaves_with_path(checkpoint.read_params_as_saved(path))


def assert_same_run(one, other):
  """Equal parameters, losses and captions, as far as another number of devices allows."""
  (step, expected), (found_step, found) = arrays(one), arrays(other)
  assert step == found_step
  for (name, a), (other_name, b) in zip(expected, found, strict=True):
    assert name == other_name
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=jax.tree_util.keystr(name))
  left, right = outcome.left_by(one), outcome.left_by(other)
  assert [(r['kind'], r['step']) for r in left['records']] == [
    (r['kind'], r['step']) for r in right['records']
  ]
  losses = [[r['loss'] for r in run['records'] if 'loss' in r] for run in (left, right)]
  np.testing.assert_allclose(*losses, rtol=1e-5)
  said = [
    {file: [(c['video_id'], c['caption']) for c in json.loads(text)] for file, text in run.items()}
    for run in (left['captions'], right['captions'])
  ]
  assert said[0] == said[1] != {}


@pytest.mark.timeout(2 * SECONDS + 60)
def test_two_processes_train_as_one(tiny_data, tmp_path):
  """SIGTERM to one of them stops both after the same step; started again they finish."""
  with tiny.without_java():
    alone = tiny.run(tiny.small_config(tiny_data), tmp_path / 'alone')
  together = tmp_path / 'together'
  start = functools.partial(training, 'small_config', tiny_data, together, 2, 1)
  with start() as job:
    job.wait_until('step 2/8', 0)
    job.running[1].send_signal(signal.SIGTERM)
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
  assert '[xe]' not in other  # one of them speaks, writes the records, captions and scores
  assert_same_run(alone, together)


@pytest.mark.slow
@pytest.mark.timeout(4 * SECONDS)
def test_a_run_goes_on_with_other_processes_and_shardings(tiny_data, tmp_path):
  with tiny.without_java():
    alone = tiny.run(tiny.small_config(tiny_data), tmp_path / 'alone')
  workdir = tmp_path / 'moved'
  # Two processes that share one copy of the model; one; four, each with a part of every array, and
  # of the features.
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
        job.running[-1].send_signal(signal.SIGTERM)
      said = job.wait()
      assert set(job.codes) == ({143} if stop < 8 else {0}), said
  assert_same_run(alone, workdir)


@pytest.mark.slow
@pytest.mark.timeout(2 * SECONDS)
def test_two_processes_fuse_as_one(tiny_data, tmp_path):
  with tiny.unscored_by_java():
    alone = tiny.run(tiny.fused_config(tiny_data), tmp_path / 'alone')
  with training('fused_config', tiny_data, tmp_path / 'together', 2, 4) as job:
    said = job.wait()
    assert job.codes == [0, 0], said
  left, right = (
    json.loads((workdir / 'eval' / 'val' / 'captions.json').read_text())
    for workdir in (alone, tmp_path / 'together')
  )
  for a, b in zip(left, right, strict=True):
    assert (a['video_id'], a['caption'], a['chosen']) == (b['video_id'], b['caption'], b['chosen'])
  assert len(left) == 3


# ---------------------------------------------------------------- what ends a job

TIMEOUT = 10


def lost(index: int, signal_number: int, tmp_path) -> tuple[float, int, str]:
  """Sends one of two processes a signal while the other waits for it in a collective; after how
  many seconds the other ended, its exit code, and what it said."""
  script, port = str(ROOT / 'tests' / 'end_to_end' / 'waiting_process.py'), str(free_port())
  argvs = [[script, port, '2', str(i), str(TIMEOUT), 'waits'] for i in range(2)]
  with Together(argvs, tmp_path, 1) as job:
    for i in range(2):
      job.wait_until('ready', i)
    time.sleep(1)
    job.running[index].send_signal(signal_number)
    sent = time.monotonic()
    said = job.wait(but=index)
    return time.monotonic() - sent, job.codes[0], said[1 - index]


@pytest.mark.timeout(SECONDS + 60)
def test_a_process_that_stops_ends_the_job(tmp_path):
  seconds, code, said = lost(1, signal.SIGSTOP, tmp_path)
  assert seconds < 2 * TIMEOUT
  assert code == LOST
  assert 'process 0 of 2: ended, because process 1 gave no sign of life for 6 s' in said


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
  seconds, code, said = lost(index, signal_number, tmp_path)
  assert seconds < 2 * TIMEOUT
  assert code in codes
  if code == LOST:
    assert f'ended, because process {index} gave no sign of life' in said


@pytest.mark.timeout(SECONDS + 60)
def test_a_process_that_fails_ends_the_job(tmp_path):
  script, port = str(ROOT / 'tests' / 'end_to_end' / 'waiting_process.py'), str(free_port())
  argvs = [[script, port, '2', str(i), '60', 'fails'] for i in range(2)]
  with Together(argvs, tmp_path, 1) as job:
    main, other = job.wait()
  assert job.codes == [1, 1]
  assert 'process 1 of 2: error: v7 is broken\n' in other
  assert 'process 0 of 2: ended, because process 1 failed: v7 is broken\n' in main


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 60)
def test_processes_that_do_not_find_each_other(tiny_data, tmp_path):
  flags = [f'--coordinator=localhost:{free_port()}', '--num_processes=2', '--process_id=1']
  with training(
    'small_config', tiny_data, tmp_path / 'work', 1, 1, *flags, '--start_timeout=3'
  ) as job:
    (said,) = job.wait()
  assert job.codes == [1]
  assert 'error: process 1 of 2 did not find the others at localhost:' in said
