"""What waits where a process may be lost."""

import sys

import jax
import pytest

from vidcap_jax.distributed.cluster import Place
from vidcap_jax.distributed.jobs import joined
from vidcap_jax.errors import UserError


@pytest.mark.parametrize(
  ('error', 'waits'),
  [
    (jax.errors.JaxRuntimeError('UNKNOWN: Gloo all-reduce failed: connection closed'), True),
    (ValueError('INTERNAL: a peer is gone'), True),
    (jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes'), False),
    (ValueError('a fault of the program'), False),
    (UserError('v7 is broken'), False),
  ],
  ids=str,
)
def test_only_what_a_lost_process_may_be_behind_waits(error, waits, monkeypatch):
  done = []

  class Dog:
    def wait_for_verdict(self):
      done.append('waited')

    def announce(self, code, reason):
      done.append((code, reason))

  monkeypatch.setattr('vidcap_jax.distributed.jobs._join', lambda *_: Dog())
  monkeypatch.setattr('os._exit', sys.exit)
  with pytest.raises(SystemExit), joined(Place('h:1', 2, 1), 60, 300):
    raise error
  assert done == ['waited'] * waits + [(1, f'process 1 failed: {error}')]
