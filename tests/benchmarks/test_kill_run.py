"""The data set and the config of the run that is killed."""

import pytest

from benchmarks import kill_run
from vidcap_jax.data.records import open_split
from vidcap_jax.training.experiment import stage_config


@pytest.fixture(scope='module')
def data(tmp_path_factory):
  return kill_run.write_data(tmp_path_factory.mktemp('kill'))


def test_data_has_both_splits(data):
  splits = {name: open_split(data, name) for name in ('train', 'val')}
  assert {name: len(split) for name, split in splits.items()} == {'train': 40, 'val': 40}
  video = splits['val'][3]
  assert len(video.captions) == 2
  assert video.features['image'].shape[1] == kill_run.CHANNELS


def test_config_trains_two_stages_on_the_data(data):
  config = kill_run.get_config(data)
  assert config.data.dir == data
  assert config.order == ('first', 'second')
  assert stage_config(config, 'first').train.init_from == ''
  assert stage_config(config, 'second').train.init_from == 'stage:first'
  steps = config.train.epochs * 40 / config.train.batch_size
  assert steps == 40
  assert steps % config.checkpoint.every_steps == 0
