"""Which hosts and origins may use the server."""

import socket

import pytest
from starlette.datastructures import Headers

from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.guards import Guard
from vidcap_jax.serving.metrics import Metrics


@pytest.fixture(scope='module')
def guard():
  return Guard(None, ('captions.example.org',), Metrics(), ())


@pytest.mark.parametrize(
  'host',
  [
    *('localhost:8080', 'LOCALHOST', '127.0.0.1:8080', '[::1]:8080', '192.168.1.7'),
    *('captions.example.org', 'captions.example.org:443', socket.gethostname()),
  ],
)
def test_own_hosts(guard, host):
  guard.check('GET', Headers({'host': host}))
  guard.check('POST', Headers({'host': host, 'origin': f'https://{host}'}))


@pytest.mark.parametrize(
  'host',
  [
    'example.org',
    '',
    'localhost.example.org',
    '127.0.0.1.example.org',
    '[x]',
    '[',
    '[::1',
    '[::1]x',
  ],
)
def test_names_that_were_made_to_point_here(guard, host):
  with pytest.raises(ApiError) as error:
    guard.check('GET', Headers({'host': host}))
  assert (error.value.status, error.value.code) == (403, 'forbidden_host')


@pytest.mark.parametrize(
  'headers',
  [
    {'origin': 'https://example.org'},
    {'origin': 'null'},
    {'origin': 'http://localhost:9090'},
    {'origin': 'localhost:8080'},
    {'sec-fetch-site': 'cross-site'},
    {'sec-fetch-site': 'same-site', 'origin': 'http://localhost:8080'},
  ],
)
def test_pages_of_other_origins(guard, headers):
  own = {'host': 'localhost:8080'}
  with pytest.raises(ApiError) as error:
    guard.check('POST', Headers({**own, **headers}))
  assert (error.value.status, error.value.code) == (403, 'forbidden_origin')
  guard.check('GET', Headers({**own, **headers}))
