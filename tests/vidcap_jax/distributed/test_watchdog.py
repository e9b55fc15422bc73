"""Several watchdogs over one store, as those of several processes."""

import threading
import time

import pytest

from vidcap_jax.distributed.watchdog import LOST, Watchdog

TIMEOUT = 3.0


class Store:
  """What the coordination service keeps; while ``open`` is cleared its calls block."""

  def __init__(self):
    self.held: dict[str, str] = {}
    self.open = threading.Event()
    self.open.set()

  def key_value_set(self, key, value, allow_overwrite=False):
    self.open.wait()
    if key in self.held and not allow_overwrite:
      raise RuntimeError(f'{key} is there already')
    self.held[key] = value

  def key_value_dir_get(self, folder):
    self.open.wait()
    return [(key, value) for key, value in list(self.held.items()) if key.startswith(folder)]


class Job:
  """Watchdogs of so many processes, and the exit codes of those that ended."""

  def __init__(self, count, timeout=TIMEOUT):
    self.store, self.codes = Store(), {}
    self.began = time.monotonic()
    self.dogs = [
      Watchdog(self.store, i, count, timeout, lambda code, i=i: self.codes.update({i: code}))
      for i in range(count)
    ]

  def kill(self, index):
    """A process without signs of life is dead to the others."""
    self.dogs[index].stop()

  def wait_for(self, count, seconds=2 * TIMEOUT):
    while len(self.codes) < count and time.monotonic() - self.began < seconds:
      time.sleep(0.05)
    return self.codes

  def end(self):
    self.store.open.set()
    for dog in self.dogs:
      dog.stop()


@pytest.fixture
def job(request):
  made = Job(3)
  yield made
  made.end()


def test_one_that_falls_silent_ends_all(job, capfd):
  time.sleep(3 * job.dogs[0].interval)
  assert job.codes == {}
  job.kill(2)
  killed = time.monotonic()
  assert job.wait_for(2) == {0: LOST, 1: LOST}
  assert time.monotonic() - killed < TIMEOUT + 1
  said = capfd.readouterr().err.splitlines()
  assert sorted(line.split(':')[0] for line in said) == ['process 0 of 3', 'process 1 of 3']
  assert all('ended, because process 2 gave no sign of life for 2 s' in line for line in said)


def test_process_0_falls_silent(job, capfd):
  """Its store stops with it, and whoever talks to it waits."""
  job.kill(0)
  job.store.open.clear()
  assert job.wait_for(2) == {1: LOST, 2: LOST}
  assert capfd.readouterr().err.count('because process 0 gave no sign of life') == 2


@pytest.mark.parametrize('index', [0, 1])
def test_one_that_fails_tells_the_others(index, job, capfd):
  job.dogs[index].announce(1, f'process {index} failed: v7 is broken')
  assert job.wait_for(2, TIMEOUT / 2) == {i: 1 for i in range(3) if i != index}
  assert capfd.readouterr().err.count(f'because process {index} failed: v7 is broken\n') == 2


def test_nobody_ends_while_all_live(job):
  time.sleep(1.5 * TIMEOUT)
  assert job.codes == {}


def test_one_that_was_stopped_itself_blames_nobody(job, monkeypatch):
  """After a pause of all its threads the others' signs look old."""
  dog = job.dogs[1]
  hour = time.monotonic
  late = [0.0]
  with monkeypatch.context() as patch:
    patch.setattr('vidcap_jax.distributed.watchdog.time.monotonic', lambda: hour() + late[0])
    late[0] = 1000.0
    time.sleep(1.2 * dog.patience)
    assert job.codes == {}
