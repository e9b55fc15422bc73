"""Which settings of two configs differ, and which no stage can change."""

import copy

from ml_collections import ConfigDict

from configs import dual_afr, msvd_stats
from vidcap_jax.config_diff import (
  ABSENT,
  as_begun,
  as_saved,
  differences,
  run_settings,
  with_added_keys,
)


def test_differences_by_dotted_name():
  one = {'model': {'name': 'stats', 'units': 512}, 'seed': 0}
  other = {'model': {'name': 'stats', 'units': 256}, 'epochs': 3}
  assert differences(one, other) == {
    'epochs': (ABSENT, 3),
    'model.units': (512, 256),
    'seed': (0, ABSENT),
  }


def test_paths_may_be_written_in_several_ways():
  one = {'data': {'dir': 'data/mine'}, 'features': {'image': 'image/'}, 'files': ['a/b', 'c']}
  other = {'data': {'dir': './data/mine/'}, 'features': {'image': 'image'}, 'files': ('a//b', 'c')}
  assert differences(one, other) == {}
  other['data']['dir'], other['files'] = 'mine/', ['a/b', 'c.']
  assert [*differences(one, other)] == ['data.dir', 'files']
  assert [*differences({'dir': ''}, {'dir': './'})] == ['dir']


def test_tuples_are_saved_as_lists():
  config = ConfigDict({'streams': ('image', 'motion')})
  assert as_saved(config) == {'streams': ['image', 'motion']}
  assert differences(as_saved(config), {'streams': ['image', 'motion']}) == {}


def test_settings_of_a_whole_run():
  changes = {'mesh': {'data': 2, 'axis': 1}, 'seeds': 3, 'optimizer': {'rate': 0.1}}
  assert run_settings(changes) == ['mesh.data', 'seeds']


def saved_before_annealed() -> dict:
  """The config of a STaTS run that was begun before ``train.annealed`` existed."""
  saved = as_saved(msvd_stats.get_config())
  for train in (saved['train'], saved['stages']['rl']['train']):
    del train['annealed'], train['first_epoch']
  saved['stages']['rl']['train']['scheduled_sampling']['name'] = 'off'
  saved['data']['standardise'], saved['optimizer']['clip_norm'] = True, 5.0
  del saved['stages']['rl']['objective']['encoder']
  return saved


def test_an_older_run_goes_on_with_its_own_schedules():
  current, saved = msvd_stats.get_config(), saved_before_annealed()
  begun, replaced = as_begun(current, saved)
  assert as_saved(begun) == saved
  assert sorted(replaced) == [
    *('data.standardise', 'optimizer.clip_norm', 'stages.rl.objective.encoder'),
    *('stages.rl.train.annealed', 'stages.rl.train.first_epoch'),
    *('stages.rl.train.scheduled_sampling.name', 'train.annealed', 'train.first_epoch'),
  ]
  assert 'annealed' in current.train


def test_what_else_differs_in_an_older_run_stays_different():
  current, saved = msvd_stats.get_config(), saved_before_annealed()
  current.train.scheduled_sampling.name = 'off'
  current.stages.rl.train.epochs = 3.0
  begun, _ = as_begun(current, saved)
  assert set(differences(saved, as_saved(begun))) == {
    *('train.scheduled_sampling.name', 'stages.rl.train.epochs'),
  }


def test_a_run_that_has_the_keys_keeps_the_config():
  current = msvd_stats.get_config()
  saved = as_saved(current)
  saved['stages']['rl']['train']['annealed'] = [0.0, 1.0]
  assert as_begun(current, saved) == (current, [])


def test_an_older_run_keeps_its_length_buckets():
  current = msvd_stats.get_config()
  saved = as_saved(current)
  saved['data']['length_buckets'] = [9, 11, 13, 16]
  begun, replaced = as_begun(current, saved)
  assert (as_saved(begun), replaced) == (saved, ['data.length_buckets'])
  current.data.length_buckets = (8, 16)  # asked for
  assert as_begun(current, saved) == (current, [])


def test_an_older_run_of_dual_afr_keeps_its_last_layer():
  current = dual_afr.get_config('mlp')
  assert current.model.embed_last
  saved = as_saved(current)
  del saved['train']['annealed'], saved['train']['first_epoch'], saved['model']['embed_last']
  begun, replaced = as_begun(current, saved)
  assert 'model.embed_last' in replaced
  assert 'embed_last' not in begun.model
  assert with_added_keys(saved)['model']['embed_last'] is False


def test_keys_added_later_have_the_values_that_older_runs_have():
  saved = saved_before_annealed()
  before = copy.deepcopy(saved)
  train = with_added_keys(saved)['train']
  assert (train['first_epoch'], train['annealed']) == (0.0, [0.0, 1.0])
  assert with_added_keys(saved)['stages']['rl']['objective']['encoder'] == 'trained'
  assert saved == before
  assert with_added_keys({'seed': 0}) == {'seed': 0}
