"""Configs that compare all models on one data set: equal sizes, streams and epochs."""

import pytest

from configs import common, comparisons, flickr8k, msrvtt_frames
from vidcap_jax import models
from vidcap_jax.training.experiment import stage_config


@pytest.mark.parametrize('module', [flickr8k, msrvtt_frames])
def test_all_models_but_the_transformer_have_equal_sizes(module):
  for name in set(module.VARIANTS['model']) - {'transformer'}:
    model = module.get_config(f'model={name}').model
    assert {model[size] for size in comparisons.SIZES if size in model} == {256}, name


@pytest.mark.parametrize('module', [flickr8k, msrvtt_frames])
def test_the_stages_of_cross_entropy_have_the_same_epochs_together(module):
  for name in module.VARIANTS['model']:
    config = module.get_config(f'model={name}')
    stages = [stage_config(config, stage) for stage in config.order]
    epochs = sum(stage.train.epochs for stage in stages if stage.task == 'train')
    assert epochs == pytest.approx(module.get_config('').train.epochs), name


def test_every_model_reads_the_cells_of_pictures():
  for name in flickr8k.VARIANTS['model']:
    config = flickr8k.get_config(f'model={name}')
    needs = models.build(stage_config(config, config.order[-1]).model, 9).config.needs
    assert set(needs.streams) <= {'image', 'cells'}
    assert 'cells' in needs.streams, name


def test_updown_attends_to_cells_where_there_are_some():
  for grid, attended in ((flickr8k.STREAMS[1], 'cells'), (None, 'image')):
    model = comparisons.add_model(common.base(), 'updown', flickr8k.STREAMS[0], grid).model
    assert (model.global_streams, model.attended_stream) == (('image',), attended)
    assert set(models.build(model, 9).config.needs.streams) == {'image', attended}
    assert {model[size] for size in comparisons.SIZES if size in model} == {256}


def test_reinforcement_starts_from_the_last_stage_of_cross_entropy():
  config = flickr8k.get_config('model=refocus,recipe=rl')
  assert config.order[-2:] == ('fixed', 'rl')
  assert config.stages.rl.train.init_from == 'stage:fixed'


def test_reinforcement_has_a_short_warm_up():
  """That of a Transformer's cross entropy would be a third of it."""
  config = flickr8k.get_config('model=transformer,recipe=rl')
  warm_up = [stage_config(config, stage).optimizer.schedule.warmup_epochs for stage in config.order]
  assert warm_up == [1.0, 0.1]
