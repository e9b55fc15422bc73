"""Worker processes: results, time limits, memory limits, and those that can't start."""

import dataclasses
import os
import signal
import tempfile
import threading
import time

import pytest

from tests.http_server import wait_until
from vidcap_jax.errors import UserError
from vidcap_jax.serving import decoding_workers
from vidcap_jax.serving.decoding_workers import Events, Job, WorkerPool
from vidcap_jax.serving.errors import ApiError


@pytest.fixture(scope='module')
def counted():
  return {'replaced': [], 'compiled': []}


@pytest.fixture(scope='module')
def pool(service, counted):
  """One worker."""
  events = Events(counted['replaced'].append, counted['compiled'].append)
  made = WorkerPool(service.source, 1, 2**30, events)
  made.start()
  yield made
  made.close()


def test_a_file_is_read(pool, workspace, counted):
  decoded = pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4', with_pictures=True)).result()
  assert {*decoded.features} == {*decoded.times} == {'image'}
  assert decoded.pictures
  assert counted == {'replaced': [], 'compiled': [0]}


def test_errors_are_those_of_the_file(pool, tmp_path):
  (tmp_path / '0.png').write_bytes(b'\x89PNG\r\n\x1a\n')
  with pytest.raises(ApiError, match=r'mine\.png') as error:
    pool.submit(Job(tmp_path / '0.png', 'mine.png')).result()
  assert error.value.code == 'bad_file'


def test_a_worker_that_takes_too_long_is_replaced(pool, workspace, counted, monkeypatch):
  monkeypatch.setattr(pool, '_seconds', 0.0)
  with pytest.raises(ApiError, match=r'mine\.mp4.* 0 seconds') as error:
    pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4')).result()
  assert (error.value.status, error.value.code) == (422, 'decoding_timeout')
  assert counted['replaced'] == ['timeout']
  monkeypatch.undo()
  assert pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4')).result().features


def pid_of(pool) -> int:
  (worker,) = pool._all
  return worker._process.pid


def wait_for_another(pool, pid: int) -> int:
  wait_until(lambda: pool._all and pid_of(pool) != pid)
  return pid_of(pool)


def test_an_idle_worker_that_died_costs_no_request(pool, workspace, counted):
  counted['replaced'].clear()
  pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4')).result()
  os.kill(pid_of(pool), signal.SIGKILL)
  wait_until(lambda: not any(worker.is_alive() for worker in pool._all))
  assert pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4')).result().features
  assert counted['replaced'] == ['died']


def test_requests_wait_for_a_starting_worker_for_a_limited_time(pool, workspace, monkeypatch):
  pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4')).result()
  killed = pid_of(pool)
  os.kill(killed, signal.SIGKILL)
  wait_until(lambda: not any(worker.is_alive() for worker in pool._all))
  monkeypatch.setattr(pool, '_seconds', 1.0)
  waiting = pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4'))
  starting = wait_for_another(pool, killed)
  os.kill(starting, signal.SIGSTOP)
  with pytest.raises(ApiError, match=' 1 seconds') as error:
    waiting.result()
  assert (error.value.status, error.value.code) == (503, 'no_workers')
  monkeypatch.undo()
  os.kill(starting, signal.SIGCONT)
  assert pool.submit(Job(workspace / 'clip.mp4', 'mine.mp4')).result().features


def test_workers_that_are_starting_are_ended(service, tmp_path, monkeypatch):
  monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
  pool = WorkerPool(service.source, 1, 2**30)
  starting = threading.Thread(target=lambda: pytest.raises(UserError, pool.start))
  starting.start()
  wait_until(lambda: pool._all)
  os.kill(pid_of(pool), signal.SIGSTOP)
  begin = time.monotonic()
  pool.close()
  starting.join(60)
  assert not starting.is_alive()
  assert time.monotonic() - begin < 60 < decoding_workers.START_SECONDS
  assert list(tmp_path.iterdir()) == []


def test_a_worker_that_can_not_start(service):
  (stream,) = service.source.provenance.streams
  unknown = dataclasses.replace(stream, extractor='gone')
  provenance = dataclasses.replace(service.source.provenance, streams=(unknown,))
  pool = WorkerPool(dataclasses.replace(service.source, provenance=provenance), 1, 2**30)
  with pytest.raises(UserError, match='gone'):
    pool.start()
  pool.close()


def test_the_limit_of_memory_counts_from_the_start(monkeypatch):
  limits = {}
  monkeypatch.setattr(decoding_workers.resource, 'setrlimit', limits.__setitem__)
  decoding_workers._limit_memory(2**30)
  data, core = (getattr(decoding_workers.resource, f'RLIMIT_{name}') for name in ('DATA', 'CORE'))
  assert limits[core] == (0, 0)
  assert limits[data][0] > 2**30


def test_a_file_that_needs_more_memory_than_a_worker_may_take(service, tmp_path):
  image = pytest.importorskip('PIL.Image')
  image.new('RGB', (6000, 6000)).save(tmp_path / '0.png')  # 108 MB of pixels
  pool = WorkerPool(service.source, 1, 64 * 2**20)
  pool.start()
  with pytest.raises(ApiError, match=r'mine\.png') as error:
    pool.submit(Job(tmp_path / '0.png', 'mine.png')).result()
  assert error.value.code in ('too_large', 'decoding_failed')  # an error, or the process crashes
  pool.close()
