"""Places for requests, and the shape of results."""

import contextlib
import io

import numpy as np
import pytest
from starlette.datastructures import UploadFile

from vidcap_jax.inference.result import Candidate
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.media import Decoded
from vidcap_jax.serving.programs import Captioned
from vidcap_jax.serving.service import Outcome


@pytest.mark.parametrize('state', ['starting', 'stopping'])
def test_a_server_that_starts_or_stops_has_no_places(service, monkeypatch, state):
  monkeypatch.setattr(service, 'state', state)
  with pytest.raises(ApiError) as error, service.admitted():
    pass
  assert (error.value.status, error.value.code) == (503, state)
  assert error.value.headers['Retry-After']


def test_places_are_given_back(service, monkeypatch):
  monkeypatch.setattr(service, 'state', 'ready')
  most = service.capacity.requests
  for _ in range(2):
    with contextlib.ExitStack() as places:
      for _ in range(most):
        places.enter_context(service.admitted())
      with pytest.raises(ApiError, match=str(most)) as error, service.admitted():
        pass
      assert error.value.status == 429
      assert int(error.value.headers['Retry-After']) >= 1
  with pytest.raises(ValueError, match='fault'), service.admitted():
    raise ValueError('fault')
  assert service.metrics.in_progress._value.get() == 0


def test_a_start_ends_between_programs_when_the_server_stops(service, monkeypatch):
  ran, lines = [], []

  def run():
    ran.append(1)
    service.state = 'stopping'

  monkeypatch.setattr(service, 'state', 'starting')
  monkeypatch.setattr(service, '_workers', None)
  monkeypatch.setattr(service.programs, 'first_runs', lambda video: [run, run])
  service.start(lines.append)
  assert (ran, service.state) == ([1], 'stopping')
  assert '2 programs' in lines[0]


def test_an_unknown_stream_is_named_once(service):
  file = io.BytesIO()
  np.save(file, np.ones((3, 128), np.float32))
  file.seek(0)
  with pytest.raises(ApiError, match='^features: (?!features)') as error:
    service._read_features({'sound': UploadFile(file)})
  assert error.value.code == 'bad_features'
  assert 'sound' in error.value.message


def test_results():
  candidates = (Candidate('a dog', -1.0), Candidate('a cat', -2.0))
  shown = Outcome('clip', Decoded({}, ('cut short',)), Captioned(candidates, {})).to_dict()
  assert shown == {
    'video_id': 'clip',
    'caption': 'a dog',
    'log_prob': -1.0,
    'captions': [
      {'caption': 'a dog', 'log_prob': -1.0},
      {'caption': 'a cat', 'log_prob': -2.0},
    ],
    'attention': None,
    'notes': ['cut short'],
    'error': None,
  }
  failed = Outcome('clip', error=ApiError('bad_file', 'why')).to_dict()
  assert {*failed} == {*shown}
  assert (failed['caption'], failed['error']) == (None, {'code': 'bad_file', 'message': 'why'})
