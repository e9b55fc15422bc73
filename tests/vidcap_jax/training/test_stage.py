"""Numbers out of range are found before a stage trains."""

import pytest

from tests import tiny
from vidcap_jax.errors import ConfigError


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


@pytest.mark.parametrize(
  ('key', 'value', 'must'),
  [
    ('train.epochs', 0.0, 'above 0'),
    ('eval.every_epochs', 0.0, 'above 0'),
    ('train.epochs', float('nan'), 'above 0'),
    ('train.scheduled_sampling.every_epochs', 0.0, 'above 0'),
    ('log.every_steps', -1, 'at least 0'),
    ('train.first_epoch', -1.0, 'at least 0'),
    ('checkpoint.keep', 0, 'at least 1'),
    ('train.label_smoothing', 1.0, 'at least 0 and below 1'),
    ('model.dropout', 1.0, 'at least 0 and below 1'),
    ('model.dropout', -0.1, 'at least 0 and below 1'),
  ],
)
def test_numbers_out_of_range(key, value, must, tiny_data, tmp_path):
  config = tiny.short_config(tiny_data)
  config.update_from_flattened_dict({key: value})
  with pytest.raises(ConfigError, match=rf"stage 'xe': config.{key}={value}: must be {must}$"):
    tiny.run(config, tmp_path)


@pytest.mark.parametrize('annealed', [(0.5,), (1.0, 0.0), (-0.1, 1.0), (0.0, 1.1)])
def test_shares_of_annealing_that_make_no_sense(annealed, tiny_data, tmp_path):
  config = tiny.short_config(tiny_data)
  config.train.annealed = annealed
  with pytest.raises(ConfigError, match=r"'xe': config.train.annealed=\("):
    tiny.run(config, tmp_path)
