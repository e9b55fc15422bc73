"""The programs that compute scores, by options and by a config."""

import pytest

from configs import common
from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import programs, scorers
from vidcap_jax.evaluation.java import MetricError
from vidcap_jax.evaluation.programs import Programs, of_config


def test_the_defaults_of_a_config_are_those_of_the_options():
  assert of_config(common.base().eval) == Programs()
  assert set(programs.KEYS) <= set(common.base().eval)
  assert of_config({'batch_size': 64}) == Programs()  # of an earlier version


def test_the_choices_are_those_that_exist():
  assert programs.CHOICES['scorers'] == tuple(scorers.SCORERS)


@pytest.mark.parametrize(
  ('key', 'value', 'known'),
  [
    ('tokenizer', 'perl', 'auto, java, python'),
    ('meteor', 'Java', 'auto, java, python'),
    ('scorers', 'nltk', 'numpy, pycocoevalcap'),
  ],
)
def test_unknown_values_are_refused_with_the_key_and_the_choices(key, value, known):
  with pytest.raises(ConfigError, match=rf'^{key}:.*{value}.*{known}'):
    Programs(**{key: value})
  with pytest.raises(ConfigError, match=rf'^eval\.{key}:.*{value}.*{known}'):
    of_config({key: value})


@pytest.mark.parametrize('seconds', [0.0, -3.0, float('nan'), float('inf')])
def test_a_time_limit_out_of_range_is_refused(seconds):
  with pytest.raises(ConfigError, match=f'meteor_time_limit={seconds:g}'):
    Programs(meteor_time_limit=seconds)


def test_options_that_are_given_replace_those_of_a_config():
  chosen = of_config({'tokenizer': 'java', 'meteor': 'java'})
  changed = chosen.changed({'meteor': 'python', 'scorers': None})
  assert changed == Programs(tokenizer='java', meteor='python')
  assert changed.chosen() == {'tokenizer': 'java', 'meteor': 'python'}


def test_what_is_asked_for_and_missing_is_an_error_with_the_key(no_java, monkeypatch):
  with pytest.raises(MetricError, match=r'eval\.tokenizer=java'):
    Programs(tokenizer='java').require(['CIDEr'], 'eval.')
  with pytest.raises(MetricError, match='--meteor=java'):
    Programs(meteor='java').require(['CIDEr'], '--')
  Programs().require(['METEOR'], '--')
  with pytest.raises(ConfigError, match=r'eval\.embedding_model=/nowhere'):
    Programs(embedding_model='/nowhere').require(['RefEmbedding'], 'eval.')
