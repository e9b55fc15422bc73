"""Objectives by name."""

import pytest
from ml_collections import ConfigDict

from vidcap_jax.errors import ConfigError
from vidcap_jax.objectives import make_objective


def test_an_unknown_name_lists_the_known():
  with pytest.raises(ConfigError, match="'crossentropy'; known: cross_entropy, multi_sample"):
    make_objective(ConfigDict({'objective': {'name': 'crossentropy'}}), None, None)
