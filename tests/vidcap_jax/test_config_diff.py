"""Which settings of two configs differ, and which no stage can change."""

from ml_collections import ConfigDict

from vidcap_jax.config_diff import ABSENT, as_saved, differences, run_settings


def test_differences_by_dotted_name():
  one = {'model': {'name': 'stats', 'units': 512}, 'seed': 0}
  other = {'model': {'name': 'stats', 'units': 256}, 'epochs': 3}
  assert differences(one, other) == {
    'epochs': (ABSENT, 3),
    'model.units': (512, 256),
    'seed': (0, ABSENT),
  }


def test_tuples_are_saved_as_lists():
  config = ConfigDict({'streams': ('image', 'motion')})
  assert as_saved(config) == {'streams': ['image', 'motion']}
  assert differences(as_saved(config), {'streams': ['image', 'motion']}) == {}


def test_settings_of_a_whole_run():
  changes = {'mesh': {'data': 2, 'axis': 1}, 'seeds': 3, 'optimizer': {'rate': 0.1}}
  assert run_settings(changes) == ['mesh.data', 'seeds']
