"""The stages of the VATEX config and its fallback."""

import pytest

from configs import vatex_fusion
from vidcap_jax import models
from vidcap_jax.errors import ConfigError
from vidcap_jax.training import experiment

# ---------------------------------------------------------------- the config


def test_stages_of_the_vatex_config():
  c = vatex_fusion.get_config()
  branches = ('temporal', 'temporal_rl', 'spatial', 'spatial_rl')
  assert c.order == (*branches, 'embedding', 'fusion')
  kinds = {name: experiment.stage_config(c, name) for name in c.order}
  assert [s.task for s in kinds.values()] == [*['train'] * 5, 'fuse']
  assert [s.model.name for s in kinds.values()][:5] == [*['temporal_spatial'] * 4, 'embedding']
  objectives = ['cross_entropy', 'self_critical'] * 2
  assert [s.objective.name for s in kinds.values()][:5] == [*objectives, 'embedding']
  assert [s.train.init_from for s in kinds.values()][:4] == [
    '',
    'stage:temporal',
    '',
    'stage:spatial',
  ]
  assert [s.eval.metric for s in kinds.values()][:5] == [*['CIDEr'] * 4, 'rsum']
  assert 'variant' not in kinds['embedding'].model
  assert kinds['spatial_rl'].model.variant == kinds['spatial'].model.variant == 'spatial'
  for stage in kinds.values():
    assert stage.is_locked
    models.build(stage.model, 11)
  assert c.model.name == 'temporal_spatial'  # the stages changed nothing of it


def test_fallback_of_the_vatex_config():
  c = vatex_fusion.get_config('temporal,fallback=i3d')
  assert c.order == ('i3d', 'temporal')
  first, second = (experiment.stage_config(c, name) for name in c.order)
  assert first.model.global_streams == first.model.temporal_streams == ('i3d',)
  assert (first.eval.fallback, second.eval.fallback) == ('', 'stage:i3d')
  whole = vatex_fusion.get_config('fallback=i3d')
  assert whole.order == ('i3d', *vatex_fusion.ORDERS['fusion'])
  for name in ('spatial_rl', 'fusion'):
    assert experiment.stage_config(whole, name).eval.fallback == 'stage:i3d'
  with pytest.raises(ConfigError, match='exclude each other'):
    vatex_fusion.get_config('embedding,fallback=i3d')
