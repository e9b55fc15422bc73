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
  """``close(ours, theirs)``: |a - b| <= tol * max(1, max|b|), tol 2e-5 or, under x64, 1e-9."""
  tolerance = 2e-5 if precision == np.float32 else 1e-9

  def check(ours, theirs):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == precision
    worst = np.abs(ours - theirs).max()
    assert worst <= tolerance * max(1.0, np.abs(theirs).max())

  return check
