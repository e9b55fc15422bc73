"""What ``--print_config`` prints: all keys, values by stage, explanations."""

import re

import pytest

from configs import common, vatex_fusion
from vidcap_jax.cli.print_config import WIDTH, config_text
from vidcap_jax.errors import UserError


@pytest.fixture(scope='module')
def text():
  return config_text(vatex_fusion.get_config())


def keys(section, prefix=''):
  for name, value in section.items():
    if hasattr(value, 'items') and f'{prefix}{name}' != 'data.recipe.streams':
      yield from keys(value, f'{prefix}{name}.')
    else:
      yield f'{prefix}{name}'


def test_every_key_is_there_once_with_an_explanation(text):
  base = common.base()
  for key in keys(base):
    if not key.startswith(('stages.', 'model.', 'objective.')):
      found = re.findall(rf'^  {re.escape(key)}  .*\n.*', text, re.MULTILINE)
      assert len(found) == 1, key
      assert len(found[0].split()) > 3, key  # more than key and value
  assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(
  'line',
  [
    r'model temporal_spatial \(in temporal, temporal_rl, spatial, spatial_rl\)',
    r"  model.variant +'temporal' +\S.*",
    r"    in spatial, spatial_rl +'spatial'",
    r'model embedding \(in embedding\)',
    r'objective self_critical \(in temporal_rl, spatial_rl\)',
    r'  objective.collapse.steps +200 +\S.*',
    r'  objective.rewards.cider +1.0.*',
    r'  train.epochs +20.0 +\S.*',
    r'    in temporal_rl, spatial_rl +10.0',
    r"    in fusion +'fuse'",
  ],
)
def test_settings_and_stages(text, line):
  assert re.search(f'^{line}$', text, re.MULTILINE)


def test_defaults_that_the_config_does_not_set_are_marked():
  config = common.base()
  config.objective = {'name': 'multi_sample'}
  assert re.search(r'objective.draws +10\* +\S', config_text(config))


@pytest.mark.parametrize(
  ('objective', 'message'),
  [({'name': 'xe'}, "objective.name 'xe'"), ({'name': 'refocus', 'betta': 1.0}, 'objective.beta')],
)
def test_what_would_be_refused_in_training_is_refused(objective, message):
  config = common.base()
  config.objective = objective
  with pytest.raises(UserError, match=message):
    config_text(config)
