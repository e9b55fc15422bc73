"""Keys and types of a config against the defaults."""

import pytest
from ml_collections import ConfigDict

from vidcap_jax import config_keys
from vidcap_jax.errors import ConfigError


def defaults() -> ConfigDict:
  return ConfigDict(
    {'seed': 0, 'train': {'epochs': 20.0, 'dtype': 'float32'}, 'model': {'name': 'stats'}}
  ).lock()


@pytest.mark.parametrize(
  ('values', 'words'),
  [
    ({'train': {'epoch': 3}}, r'config\.train\.epoch:.*train\.epochs'),
    ({'sed': 1}, r'config\.sed'),
    ({'train': {'epochs': '3'}}, r'config\.train\.epochs:.*float.*str'),
    ({'train': 3}, r'config\.train:.*int'),
    ({'seed': 1.5}, r'config\.seed:.*int.*float'),
  ],
)
def test_wrong_keys_and_types(values, words):
  with pytest.raises(ConfigError, match=words):
    config_keys.check_keys(defaults(), ConfigDict(values))


def test_open_sections_may_have_their_own_keys():
  config_keys.check_keys(defaults(), ConfigDict({'model': {'hidden': 8}, 'train': {'epochs': 3}}))


def test_a_replaced_section_gets_the_defaults_that_it_lacks():
  config = ConfigDict({'seed': 1, 'train': {'epochs': 3}})
  config_keys.fill(config, defaults())
  assert config.train.to_dict() == {'epochs': 3.0, 'dtype': 'float32'}
  assert isinstance(config.train.epochs, float)
  assert config.seed == 1
  assert config.model.name == 'stats'
