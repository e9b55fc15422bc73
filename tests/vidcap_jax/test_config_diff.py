"""Which settings of two configs differ, and which no stage can change."""

from ml_collections import ConfigDict

from vidcap_jax.config_diff import ABSENT, as_saved, differing, of_run


def test_differences_by_dotted_name():
  one = {'model': {'name': 'stats', 'units': 512}, 'seed': 0}
  other = {'model': {'name': 'stats', 'units': 256}, 'epochs': 3}
  assert differing(one, other) == {
    'epochs': (ABSENT, 3),
    'model.units': (512, 256),
    'seed': (0, ABSENT),
  }


def test_tuples_are_saved_as_lists():
  config = ConfigDict({'streams': ('image', 'motion')})
  assert as_saved(config) == {'streams': ['image', 'motion']}
  assert differing(as_saved(config), {'streams': ['image', 'motion']}) == {}


def test_settings_of_a_whole_run():
  changes = {'mesh': {'data': 2, 'axis': 1}, 'seeds': 3, 'optimizer': {'rate': 0.1}}
  assert of_run(changes) == ['mesh.data', 'seeds']
