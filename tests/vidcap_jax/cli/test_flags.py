"""Settings are changed by flags, and where they came from is recorded."""

import pathlib

import pytest

from vidcap_jax.training import experiment

ROOT = pathlib.Path(__file__).resolve().parents[3]


# ml_collections loads config files by a method that importlib gives up.
pytestmark = pytest.mark.filterwarnings('ignore:the load_module:DeprecationWarning')

CONFIG = f'--config={ROOT / "tests" / "tiny.py"}'


@pytest.fixture
def given(command, monkeypatch):
  """The config that a run would get from flags."""

  def parse(*arguments):
    configs = []
    monkeypatch.setattr(experiment, 'run', lambda config, *_: configs.append(config))
    code, _, err = command(CONFIG, *arguments, '--workdir=anywhere')
    assert (code, err) == (0, '')
    return configs[0]

  return parse


@pytest.mark.parametrize(
  ('flags', 'key', 'value'),
  [
    (['seeds=0,1,2'], 'seeds', (0, 1, 2)),
    (['seeds=(0,1,2)'], 'seeds', (0, 1, 2)),
    (['seeds=3'], 'seeds', (3,)),
    (['seeds=0', 'seeds=1'], 'seeds', (0, 1)),
    (['data.length_buckets=9,13'], 'data.length_buckets', (9, 13)),
    (['data.length_buckets=()'], 'data.length_buckets', ()),
    (["model.global_streams=('image',)"], 'model.global_streams', ('image',)),
    (['model.global_streams=image'], 'model.global_streams', ('image',)),
    (["model.global_streams=('image','motion')"], 'model.global_streams', ('image', 'motion')),
    (['eval.metrics=BLEU', 'eval.metrics=METEOR'], 'eval.metrics', ('BLEU', 'METEOR')),
    (['train.epochs=3'], 'train.epochs', 3.0),
    (['optimizer.learning_rate=1e-3'], 'optimizer.learning_rate', 1e-3),
    (['train.batch_size=16'], 'train.batch_size', 16),
    (['log.tensorboard=false'], 'log.tensorboard', False),
    (['optimizer.schedule.name=cosine'], 'optimizer.schedule.name', 'cosine'),
  ],
)
def test_changing_settings_by_flags(flags, key, value, given):
  found = given(*(f'--config.{flag}' for flag in flags))
  for part in key.split('.'):
    found = found[part]
  assert found == value
  assert type(found) is type(value)


def test_the_config_file_and_variant_are_recorded(given):
  assert given().source == CONFIG.removeprefix('--config=')
  config = f'--config={ROOT / "configs" / "vatex_fusion.py"}:temporal,runlocal'
  assert given(config).source.endswith('configs/vatex_fusion.py:temporal,runlocal')
