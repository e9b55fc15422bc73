"""Nouns agree with their numbers."""

import pytest

from vidcap_jax.counts import counted


@pytest.mark.parametrize(
  ('arguments', 'text'),
  [
    ((0, 'video'), '0 videos'),
    ((1, 'video'), '1 video'),
    ((2, 'video'), '2 videos'),
    ((1200, 'video', ','), '1,200 videos'),
    ((1, 'video', '>4'), '   1 video'),
    ((1, 'process', '', 'processes'), '1 process'),
    ((3, 'process', '', 'processes'), '3 processes'),
  ],
)
def test_counted(arguments, text):
  assert counted(*arguments) == text
