"""Explanations of config keys, from comments and from docstrings."""

import dataclasses

import pytest

from vidcap_jax import models
from vidcap_jax.cli import explanations
from vidcap_jax.training.checks import NO_SETTINGS

SOURCE = """
def base():
  c = ConfigDict()
  c.seed = 0  # of all
  # Two lines above,
  # one key below.
  c.order = ('xe',)
  c.train = ConfigDict()
  c.train.rate = 4e-4  # highest = first
"""


def test_comments_above_and_beside():
  assert explanations.from_comments(SOURCE) == {
    'seed': 'of all',
    'order': 'Two lines above, one key below.',
    'train': '',
    'train.rate': 'highest = first',
  }


class Documented:
  """A class.

  Attributes:
    a: one line.
    b, c: two names,
      two lines.

  Raises:
    d: no attribute.
  """


def test_attributes_of_a_docstring():
  assert explanations.from_docstring(Documented) == {
    'a': 'one line.',
    'b': 'two names, two lines.',
    'c': 'two names, two lines.',
  }
  assert explanations.from_docstring(int) == {}


@pytest.mark.parametrize('name', models.MODELS)
def test_every_setting_of_a_model_is_explained(name):
  config_type, _ = models.find(name)
  explained = explanations.from_docstring(config_type)
  known = {field.name for field in dataclasses.fields(config_type)} - {*NO_SETTINGS}
  assert not known - explained.keys()
