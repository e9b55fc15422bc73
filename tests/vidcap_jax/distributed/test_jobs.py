"""Which errors wait for the watchdog before they end a job."""

import sys

import jax
import pytest

from vidcap_jax.distributed.cluster import JobProcess
from vidcap_jax.distributed.jobs import joined
from vidcap_jax.errors import UserError


@pytest.mark.parametrize(
  ('error', 'waits'),
  [
    (jax.errors.JaxRuntimeError('UNKNOWN: Gloo all-reduce failed: connection closed'), True),
    (ValueError('INTERNAL: a peer is gone'), True),
    (jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes'), False),
    (ValueError('an error of the program'), False),
    (UserError('v7 is broken'), False),
  ],
  ids=str,
)
def test_only_errors_that_a_lost_process_may_cause_wait(error, waits, monkeypatch):
  calls = []

  class FakeWatchdog:
    def wait_for_lost_process(self):
      calls.append('waited')

    def announce(self, code, reason):
      calls.append((code, reason))

  monkeypatch.setattr('vidcap_jax.distributed.jobs._join', lambda *_: FakeWatchdog())
  monkeypatch.setattr('os._exit', sys.exit)
  with pytest.raises(SystemExit), joined(JobProcess('h:1', 2, 1), 60, 300):
    raise error
  assert calls == ['waited'] * waits + [(1, f'process 1 failed: {error}')]
