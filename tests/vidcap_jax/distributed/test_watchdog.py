"""Several watchdogs that share one store, as in several processes."""

import threading
import time

import pytest

from vidcap_jax.distributed import activity
from vidcap_jax.distributed.watchdog import LOST, Watchdog

TIMEOUT = 3.0


class Store:
  """The coordination service; its calls block while ``open`` is cleared."""

  def __init__(self):
    self.values: dict[str, str] = {}
    self.open = threading.Event()
    self.open.set()

  def key_value_set(self, key, value, allow_overwrite=False):
    self.open.wait()
    if key in self.values and not allow_overwrite:
      raise RuntimeError(f'{key} exists')
    self.values[key] = value

  def key_value_dir_get(self, folder):
    self.open.wait()
    return [(key, value) for key, value in list(self.values.items()) if key.startswith(folder)]


class Job:
  """The watchdogs of ``count`` processes, and the exit codes of those that ended."""

  def __init__(self, count, timeout=TIMEOUT, stall_timeout=0.0):
    self.store, self.codes = Store(), {}
    self.began = time.monotonic()
    self.watchdogs = [
      Watchdog(
        self.store, i, count, timeout, stall_timeout, lambda code, i=i: self.codes.update({i: code})
      )
      for i in range(count)
    ]

  def kill(self, index):
    """Stops the heartbeats of a process, as its death would."""
    self.watchdogs[index].stop()

  def wait_for(self, count, seconds=2 * TIMEOUT):
    while len(self.codes) < count and time.monotonic() - self.began < seconds:
      time.sleep(0.05)
    return self.codes

  def end(self):
    self.store.open.set()
    for watchdog in self.watchdogs:
      watchdog.stop()


@pytest.fixture
def job(request):
  three = Job(3)
  yield three
  three.end()


def test_a_missing_heartbeat_ends_all_processes(job, capfd):
  time.sleep(3 * job.watchdogs[0].interval)
  assert job.codes == {}
  job.kill(2)
  killed = time.monotonic()
  assert job.wait_for(2) == {0: LOST, 1: LOST}
  assert time.monotonic() - killed < TIMEOUT + 1
  lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith('process')]
  assert sorted(line.split(':')[0] for line in lines) == ['process 0 of 3', 'process 1 of 3']
  assert all('process 2 sent no heartbeat for 2 s' in line for line in lines)


def test_the_stacks_of_a_process_that_hangs_are_written(job, capfd):
  """Of every thread, as the hanging one is not the watchdog's own."""
  released = threading.Event()

  def wait_for_another_process():
    released.wait(4 * TIMEOUT)

  hanging = threading.Thread(target=wait_for_another_process, daemon=True)
  hanging.start()
  job.kill(2)
  job.wait_for(2)
  released.set()
  hanging.join()
  output = capfd.readouterr().err
  assert output.count('stacks of all threads') == 2
  assert output.index('sent no heartbeat') < output.index('stacks of all threads')
  assert 'in wait_for_another_process' in output
  assert 'in test_the_stacks_of_a_process_that_hangs_are_written' in output  # the main thread


def test_a_missing_heartbeat_of_process_0(job, capfd):
  """The store stops with process 0, so that calls of it block."""
  job.kill(0)
  job.store.open.clear()
  assert job.wait_for(2) == {1: LOST, 2: LOST}
  assert capfd.readouterr().err.count('process 0 sent no heartbeat') == 2


@pytest.mark.parametrize('index', [0, 1])
def test_a_failure_ends_the_other_processes(index, job, capfd):
  job.watchdogs[index].announce(1, f'process {index} failed: v7 is broken')
  assert job.wait_for(2, TIMEOUT / 2) == {i: 1 for i in range(3) if i != index}
  output = capfd.readouterr().err
  assert output.count(f'because process {index} failed: v7 is broken\n') == 2
  assert 'stacks of all threads' not in output


def test_no_process_ends_while_all_send_heartbeats(job):
  time.sleep(1.5 * TIMEOUT)
  assert job.codes == {}


def test_a_process_that_was_stopped_itself_finds_no_other_lost(job, monkeypatch):
  """After a pause of all its threads, the heartbeats of the others look too old."""
  watchdog = job.watchdogs[1]
  monotonic = time.monotonic
  delay = [0.0]
  with monkeypatch.context() as patch:
    patch.setattr('vidcap_jax.distributed.watchdog.time.monotonic', lambda: monotonic() + delay[0])
    delay[0] = 1000.0
    time.sleep(1.2 * watchdog.patience)
    assert job.codes == {}


@pytest.fixture
def impatient():
  two = Job(2, stall_timeout=1.0)
  yield two
  two.end()


def test_a_main_thread_that_hangs_ends_all_processes(impatient, capfd):
  """Its heartbeats go on, so that only the lack of steps shows it."""
  with activity.doing('stepping'):
    assert impatient.wait_for(2, 3 * TIMEOUT) == {0: LOST, 1: LOST}
  output = capfd.readouterr().err
  assert 'no progress' in output
  assert 's of stepping' in output
  assert output.count('stacks of all threads') >= 2  # the fake end returns, so there may be more
  assert 'in test_a_main_thread_that_hangs_ends_all_processes' in output


def test_steps_and_long_validations_are_progress(impatient):
  with activity.doing('stepping'):
    for _ in range(6):
      with activity.doing('waiting_for_input'):
        time.sleep(0.3)
    with activity.doing('evaluating'):
      time.sleep(2.0)
  time.sleep(1.5)  # nothing that has a limit
  assert impatient.codes == {}
