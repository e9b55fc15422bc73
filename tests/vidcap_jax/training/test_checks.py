"""Settings that are refused before there is data."""

import pytest

from tests import tiny
from vidcap_jax.errors import ConfigError
from vidcap_jax.training import checks


@pytest.mark.parametrize(
  ('key', 'value'),
  [
    ('train.epochs', 0.0),
    ('eval.every_epochs', float('nan')),
    ('data.max_frames', -1),
    ('checkpoint.keep', 0),
    ('train.batch_size', 0),
    ('eval.batch_size', 0),
    ('data.captions_per_video', 0),
    ('train.label_smoothing', 1.0),
    ('model.dropout', -0.1),
  ],
)
def test_numbers_out_of_range(key, value):
  config = tiny.get_config()
  config.update_from_flattened_dict({key: value})
  with pytest.raises(ConfigError, match=key):
    checks.check_numbers(config)


@pytest.mark.parametrize(
  ('key', 'value', 'words'),
  [
    ('eval.metrics', ('CIDEr', 'BLUE'), 'BLUE'),
    ('eval.metric', 'METEOR', 'METEOR.*CIDEr'),
    ('eval.metrics', ('BERTScore',), 'CIDEr.*BERTScore_P, BERTScore_R, BERTScore_F1'),
    ('eval.tokenizer', 'perl', r'eval\.tokenizer.*perl.*auto, java, python'),
    ('eval.scorers', 'nltk', r'eval\.scorers.*nltk.*numpy, pycocoevalcap'),
    ('decode.method', 'beem', 'beem'),
    ('optimizer.name', 'adan', 'adan'),
    ('model.name', 'temporal_spacial', 'temporal_spacial'),
    ('log.profile', '9:3', '9:3'),
  ],
)
def test_names_that_do_not_exist(key, value, words):
  config = tiny.get_config()
  checks.check_settings(config, 'xe')
  config.update_from_flattened_dict({key: value})
  with pytest.raises(ConfigError, match=words):
    checks.check_settings(config, 'xe')


def test_defaults_are_those_of_the_dataclass():
  assert checks.defaults_of('objective', 'self_critical')['samples'] == 1
  assert 'vocab_size' not in checks.defaults_of('model', 'stats')
