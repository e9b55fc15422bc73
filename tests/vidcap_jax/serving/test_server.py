"""A server from its start to its end, with a model that reads features only."""

import io
import json
import re
import signal
import socket

import numpy as np
import pytest

from tests import http_forms
from tests.http_forms import get, post
from tests.http_server import START_SECONDS, start_server, wait_until
from vidcap_jax.errors import UserError
from vidcap_jax.serving import server as server_module
from vidcap_jax.serving.server import Options


@pytest.fixture
def tiny_server(tiny_run, tmp_path):
  flags = ('--batch_sizes=8', '--captions=1', '--allowed_hosts=captions.test')
  with start_server(tmp_path, tiny_run, *flags) as running:
    running.wait_until_ready()
    yield running


def features(tiny_server) -> list[http_forms.Part]:
  [stream] = get(tiny_server.url, '/v1/model').json['streams']
  file = io.BytesIO()
  np.save(file, np.ones([size or 3 for size in stream['shape']], np.float32))
  return [(f'features.{stream["name"]}', 'mine.npy', file.getvalue())]


def test_sigterm_lets_a_request_finish(tiny_server):
  refused = post(tiny_server.url, http_forms.parts_of([('a.png', b'x')]))
  assert (refused.status, refused.code) == (422, 'no_files')
  assert get(tiny_server.url, '/v1/model').json['reads_files'] is False
  parts = features(tiny_server)
  allowed = post(tiny_server.url, parts, Host='captions.test', Origin='https://captions.test')
  assert allowed.status == 200

  body = http_forms.body_of(parts)
  connection = http_forms.connect(tiny_server.url)
  connection.putrequest('POST', '/v1/captions')
  connection.putheader('Content-Type', f'multipart/form-data; boundary={http_forms.BOUNDARY}')
  connection.putheader('Content-Length', str(len(body)))
  connection.endheaders(body[:100])
  tiny_server.wait_for('vidcap_requests_in_progress', 1)
  tiny_server.process.send_signal(signal.SIGTERM)
  wait_until(lambda: not _accepts(tiny_server.url))
  connection.send(body[100:])
  answer = connection.getresponse()
  assert (answer.status, len(json.load(answer)['results'])) == (200, 1)
  assert tiny_server.process.wait(START_SECONDS) == 0
  assert list(tiny_server.temp.iterdir()) == []
  lines = tiny_server.log.read_text().splitlines()
  assert all(line.startswith('vidcap serve: ') for line in lines), lines


def test_sigterm_ends_a_start_promptly(tiny_run, tmp_path):
  with start_server(tmp_path, tiny_run, '--beams=2,3,4,5') as running:
    wait_until(lambda: 'compiling' in running.log.read_text(), START_SECONDS)
    assert get(running.url, '/healthz').status == 503
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(60) == 0  # a few seconds on a machine that is not busy
    log = running.log.read_text()
    assert re.search(r'compiling \d+ programs', log)
    assert 'ready\n' not in log
    assert 'Traceback' not in log
    assert list(running.temp.iterdir()) == []


def _accepts(url: str) -> bool:
  host, _, port = url.removeprefix('http://').partition(':')
  try:
    socket.create_connection((host, int(port)), 5).close()
  except ConnectionRefusedError:
    return False
  return True


def test_a_port_that_is_taken():
  with socket.create_server(('127.0.0.1', 0)) as taken:
    port = taken.getsockname()[1]
    with pytest.raises(UserError, match=f'--port={port}'):
      server_module._listen(Options(('run',), port=port))
  with pytest.raises(UserError, match='--port=99999'):
    server_module._listen(Options(('run',), port=99999))
  with pytest.raises(UserError, match='--host=no.such.host'):
    server_module._listen(Options(('run',), host='no.such.host.invalid'))


@pytest.mark.parametrize(
  ('host', 'warns'), [('127.0.0.1', False), ('::1', False), ('0.0.0.0', True)]
)
def test_other_machines_are_warned_of(host, warns, capsys):
  server_module._warn_of_others(host)
  assert ('warning' in capsys.readouterr().err) is warns


def test_a_service_that_can_not_start_ends_the_server(service, monkeypatch):
  import asyncio

  def fail(report):
    raise UserError('no memory')

  monkeypatch.setattr(service, 'start', fail)
  server = server_module._Server(service, Options(('run',)))
  asyncio.run(server._start())
  assert server.should_exit
  assert str(server.error) == 'no memory'
