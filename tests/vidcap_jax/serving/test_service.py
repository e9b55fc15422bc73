"""Places for requests, and the shape of results."""

import contextlib

import pytest

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
