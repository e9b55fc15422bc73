import pathlib

import pytest

from tests import http_forms
from tests.http_server import start_server

pytest.importorskip('starlette', reason='the extra "serve" is not installed')


@pytest.fixture(scope='session')
def run_folder(workspace) -> pathlib.Path:
  return workspace / 'runs' / 'mine'


@pytest.fixture(scope='session')
def server(run_folder, tmp_path_factory):
  """A server of the run in ``workspace`` that is ready, with places for eight requests."""
  flags = ('--batch_sizes=4', '--requests=8', '--workers=2', '--upload_mb=2', '--clip_seconds=30')
  folder = tmp_path_factory.mktemp('server')
  with start_server(folder, run_folder, *flags) as running:
    starting = http_forms.get(running.url, '/healthz')
    refused = http_forms.post(running.url, http_forms.parts_of([('a.png', b'x')]))
    assert (starting.status, starting.json) == (503, {'status': 'starting'})
    assert (refused.status, refused.code) == (503, 'starting')
    assert int(refused.headers['retry-after']) > 0
    running.wait_until_ready()
    assert http_forms.get(running.url, '/healthz').status == 200
    yield running


@pytest.fixture(scope='session')
def service(run_folder):
  """A service of the same run in this process; nothing is compiled or started."""
  from vidcap_jax.serving.server import Options, make_service
  from vidcap_jax.serving.settings import Capacity, Limits

  made = make_service(Options((str(run_folder),)), Limits(), Capacity(batch_sizes=(4,)))
  yield made
  made.close()
