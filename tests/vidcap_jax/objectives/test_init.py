"""Objectives by name."""

import dataclasses

import pytest
from ml_collections import ConfigDict

from vidcap_jax.errors import ConfigError
from vidcap_jax.objectives import OBJECTIVES, find, make_objective


@pytest.mark.parametrize('name', [*OBJECTIVES, 'examples.extending.objective:make'])
def test_every_objective_names_and_explains_its_settings(name):
  settings_type = find(name).settings_type
  assert dataclasses.is_dataclass(settings_type)
  for field in dataclasses.fields(settings_type):
    assert f'\n    {field.name}: ' in settings_type.__doc__


def test_an_objective_without_declared_settings_is_refused():
  with pytest.raises(ConfigError, match='json:dumps.*settings'):
    find('json:dumps')


def test_an_unknown_name_lists_the_known():
  with pytest.raises(
    ConfigError, match="objective.name.*'crossentropy'.*cross_entropy, multi_sample"
  ):
    make_objective(ConfigDict({'objective': {'name': 'crossentropy'}}), None, None)
