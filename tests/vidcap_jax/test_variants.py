"""The variant after a config file's colon."""

import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.variants import each_variant, read_variant

KNOWN = {'data': ('first', 'second'), 'variant': ('a', 'b'), 'features': ('x', 'y', 'z')}


def test_parts_are_at_their_defaults_unless_named():
  defaults = {'data': 'first', 'variant': 'a', 'features': 'x', 'runlocal': ''}
  assert read_variant('', **KNOWN) == defaults
  assert read_variant('b,features=z,runlocal', **KNOWN) == {
    **defaults,
    'variant': 'b',
    'features': 'z',
    'runlocal': 'runlocal',
  }


@pytest.mark.parametrize('text', ['c', 'variant=x', 'other=a'])
def test_unknown_parts_are_answered_with_those_known(text):
  with pytest.raises(ConfigError, match=f'{text}.*data=first.*features=z.*runlocal'):
    read_variant(text, **KNOWN)


@pytest.mark.parametrize(
  ('text', 'meant'), [('runlocl', 'runlocal'), ('data=secnd', 'data=second')]
)
def test_misspelt_parts_are_answered_with_the_part_that_is_meant(text, meant):
  with pytest.raises(ConfigError, match=f'{text}.*mean {meant}[?]'):
    read_variant(text, **KNOWN)


def test_one_data_set_at_a_time():
  assert read_variant('data=second,data=second', **KNOWN)['data'] == 'second'
  with pytest.raises(ConfigError, match='data=second.*data=first'):
    read_variant('data=second,data=first', **KNOWN)


def test_one_value_of_each_part_at_a_time():
  assert read_variant('a,variant=a,runlocal', **KNOWN)['variant'] == 'a'
  for text in ('a,b', 'variant=a,b', 'features=x,a,features=y'):
    with pytest.raises(ConfigError, match='two values for (variant|features)'):
      read_variant(text, **KNOWN)


def test_each_part_is_varied_by_itself_and_for_each_data_set():
  one_part = ['', 'variant=b', 'features=y', 'features=z']
  known = {name: values for name, values in KNOWN.items() if name != 'data'}
  assert each_variant(**known) == one_part
  second = ['data=second', *(f'data=second,{part}' for part in one_part[1:])]
  assert each_variant(**KNOWN) == [*one_part, *second]
