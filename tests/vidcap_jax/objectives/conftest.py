"""Fixtures for tests of objectives."""

import pytest

from tests.vidcap_jax.objectives.setups import setup

# Compiling takes long: every time the plainest; dualAFR makes more random choices than words.
SLOW = ('dual_afr-hard', 'stats', 'refocus', 'global2local', 'transformer')


@pytest.fixture(params=['temporal', *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def model(request):
  return setup(request.param)
