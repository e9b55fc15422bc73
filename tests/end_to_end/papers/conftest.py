"""The oracle files: float64 answers to the papers' equations."""

import os
import pathlib

import numpy as np
import pytest

from tests.x64 import enable_x64

ORACLES = pathlib.Path(__file__).parent / 'oracles'


@pytest.fixture
def oracle():
  """``oracle(name)`` loads NAME.npz from $VIDCAP_ORACLES, by default the project's own copy."""
  folder = pathlib.Path(os.environ.get('VIDCAP_ORACLES', ORACLES))
  return lambda name: dict(np.load(folder / f'{name}.npz'))


@pytest.fixture(params=['float32', 'float64'])
def precision(request):
  """Runs a test in float32 and under x64; gives the dtype."""
  if request.param == 'float32':
    yield np.float32
    return
  with enable_x64(True):
    yield np.float64


@pytest.fixture
def close(precision):
  """``close(found, expected)``: |found - expected| <= tolerance * max(1, max|expected|).

  The tolerance is 2e-5 or, under x64, 1e-9.
  """
  tolerance = 2e-5 if precision == np.float32 else 1e-9

  def check(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    assert found.dtype == precision
    worst = np.abs(found - expected).max()
    assert worst <= tolerance * max(1.0, np.abs(expected).max())

  return check
