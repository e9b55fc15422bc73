"""Timing a separate program."""

import sys

import pytest

from benchmarks.peer import Peer
from tests.benchmarks.test_speed import PROGRAM
from vidcap_jax.errors import UserError


@pytest.fixture
def program(tmp_path):
  path = tmp_path / 'peer.py'
  path.write_text(PROGRAM)
  return path


def test_the_fastest_variant_is_chosen(program):
  peer = Peer((sys.executable, str(program)), {'batch': 1})
  for _ in range(3):
    peer.run(('xe', 'beam'), ('slow', 'fast'), steps=2)
  assert peer.best('beam') == ('fast', [0.5, 0.5, 0.5])


def test_an_error_of_the_program_is_reported(tmp_path):
  path = tmp_path / 'peer.py'
  path.write_text('raise SystemExit("no torch here")')
  with pytest.raises(UserError, match=r'peer\.py failed with exit code 1: no torch here'):
    Peer((sys.executable, str(path)), {}).run(('xe',), ('split',), 1)


def test_a_program_that_takes_too_long_is_ended(tmp_path):
  path = tmp_path / 'peer.py'
  path.write_text('import time\ntime.sleep(600)')
  with pytest.raises(UserError, match=r'peer\.py .* 1 s'):
    Peer((sys.executable, str(path)), {}).run(('xe',), ('split',), 1, timeout=1.0)
