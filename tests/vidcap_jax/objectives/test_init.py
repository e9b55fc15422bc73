"""Objectives by name."""

import dataclasses
import inspect

import pytest
from ml_collections import ConfigDict

from vidcap_jax.errors import ConfigError
from vidcap_jax.objectives import OBJECTIVES, find, make_objective


@pytest.mark.parametrize('name', [*OBJECTIVES, 'examples.extending.objective:make'])
def test_every_objective_names_and_explains_its_settings(name):
  settings_type = find(name).settings_type
  assert dataclasses.is_dataclass(settings_type)
  explanations = inspect.getdoc(settings_type)  # without the indentation that Python 3.13 removes
  for field in dataclasses.fields(settings_type):
    assert f'\n  {field.name}: ' in explanations


def test_an_objective_without_declared_settings_is_refused():
  with pytest.raises(ConfigError, match='json:dumps.*settings'):
    find('json:dumps')


def test_an_unknown_name_lists_the_known():
  with pytest.raises(
    ConfigError, match="objective.name.*'crossentropy'.*cross_entropy, multi_sample"
  ):
    make_objective(ConfigDict({'objective': {'name': 'crossentropy'}}), None, None)
