"""Defaults that a config leaves out are added where an override changes them, and only there."""

from ml_collections import ConfigDict

from vidcap_jax.training import section_defaults


def config():
  stages = {'rl': {'objective': {'name': 'self_critical'}}}
  named = {'model': {'name': 'temporal_spatial'}, 'objective': {'name': 'cross_entropy'}}
  return ConfigDict({**named, 'stages': stages}).lock()


def test_only_what_is_changed_is_added():
  changed = config()
  section_defaults.add(changed, {'model.dropout': 0.1, 'model.nothing': 1, 'train.epochs': 2})
  assert set(changed.model) == {'name', 'dropout'}
  assert changed.stages.rl.objective.to_dict() == {'name': 'self_critical'}
  unchanged = config()
  section_defaults.add(unchanged, {'train.epochs': 2})
  assert unchanged == config()


def test_a_name_that_is_overridden_decides():
  found = section_defaults.of_sections(config(), {'model.name': 'refocus'})
  assert 'passes' in found['model']
  assert {*found} == {'model', 'objective', 'stages.rl.objective'}
  assert found['objective'] != found['stages.rl.objective']
