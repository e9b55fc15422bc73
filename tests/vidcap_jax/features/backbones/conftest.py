"""A folder of weights for torchvision's networks."""

import pytest

from vidcap_jax.features import weights


@pytest.fixture
def torchvision_folder(tmp_path, monkeypatch):
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path))
  (tmp_path / 'torchvision').mkdir()
  return tmp_path / 'torchvision'
