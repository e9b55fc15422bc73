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


def test_a_stage_gets_what_it_shares_with_the_run_where_an_override_changes_it():
  changed = config()
  with changed.unlocked():
    changed.train = {'batch_size': 32, 'scheduled_sampling': {'name': 'off', 'most': 0.5}}
    changed.stages.rl.train = {'epochs': 3.0}
  before = changed.copy_and_resolve_references()
  section_defaults.add(changed, {'stages.rl.train.scheduled_sampling.most': 0.1, 'train.epochs': 1})
  assert changed.stages.rl.train.to_dict() == {'epochs': 3.0, 'scheduled_sampling': {'most': 0.5}}
  assert (changed.train, changed.model) == (before.train, before.model)
  unchanged = before.copy_and_resolve_references().lock()
  for key in ('rl.train.no_key', 'rl.no_section.batch_size', 'xe.train.batch_size', 'rl.train'):
    section_defaults.add(unchanged, {f'stages.{key}': 1})
  section_defaults.add(unchanged, {'stages.rl.train.scheduled_sampling': 1, 'stages.rl': 1})
  assert unchanged == before
