"""What the papers' configs train as published, and where they follow our own defaults."""

import pytest

import configs
from configs import common
from tests.configs.test_every_config import MODULES, each, stages

# All files but those of our own recipes.
OWN = (
  *('quickstart.py', 'msrvtt1000.py', 'clip_transformer.py'),
  *('flickr8k.py', 'msrvtt_frames.py'),
)
PAPERS = [file for file in configs.files() if file not in OWN]
REFOCUS = ('msrvtt_refocus.py', 'msvd_refocus.py')


def trained(config):
  return [stage for stage in stages(config) if stage.task == 'train']


@pytest.mark.parametrize(('file', 'variant'), [(f, v) for f in PAPERS for v in each(f)])
def test_features_are_as_they_are_and_gradients_are_clipped_only_as_published(file, variant):
  """dualAFR publishes a norm of 5. 2 is usual for the hinge loss that VATEX's fusion cites."""
  published = {'dual_afr': 5.0, 'embedding': 2.0}
  for stage in trained(MODULES[file].get_config(variant)):
    assert not stage.data.standardise
    assert stage.optimizer.clip_norm == published.get(stage.model.name, 0.0)


@pytest.mark.parametrize('file', PAPERS)
def test_small_runs_keep_our_defaults(file):
  """The learning rates of ``runlocal`` are not the papers'."""
  for stage in trained(MODULES[file].get_config('runlocal')):
    assert stage.data.standardise
    assert stage.optimizer.clip_norm == (2.0 if stage.model.name == 'embedding' else 5.0)


def test_our_own_recipes_standardise_and_clip():
  base = common.base()
  assert (base.data.standardise, base.optimizer.clip_norm) == (True, 5.0)
  for stage in trained(MODULES['msrvtt1000.py'].get_config('')):
    assert (stage.data.standardise, stage.optimizer.clip_norm) == (True, 5.0)


def reinforcement(file, variant):
  """The objectives of the stages of reinforcement."""
  objectives = [stage.objective for stage in trained(MODULES[file].get_config(variant))]
  return [objective for objective in objectives if objective.name == 'self_critical']


@pytest.mark.parametrize('file', REFOCUS)
@pytest.mark.parametrize('row', MODULES[REFOCUS[0]].VARIANTS['variant'])
def test_reinforcement_is_of_the_refocus_papers_own_rows_and_their_decoder(file, row):
  """``recipe=rl`` trains the whole model in every row, as before ``published`` existed."""
  published = reinforcement(file, f'variant={row}')
  own = row not in ('soft_attention', 'mean_pool')
  assert [objective.encoder for objective in published] == ['fixed'] * own
  assert [o.encoder for o in reinforcement(file, f'variant={row},recipe=rl')] == ['trained']
  assert reinforcement(file, f'variant={row},recipe=xe') == []


@pytest.mark.parametrize('row', MODULES['dual_afr.py'].VARIANTS['variant'])
def test_dual_afr_embeds_the_last_layer_where_all_have_an_mlp(row):
  """Equation 18 is of the other alignments; equation 3 leaves the last layer as it is."""
  model = MODULES['dual_afr.py'].get_config(f'variant={row}').model
  assert model.embed_last == (row in ('mlp', 'maxpool', 'avgpool', 'hypercolumn'))
  assert model.embed_last == (model.alignment != 'convolution')


@pytest.mark.parametrize('file', ['vatex_fusion.py', 'msvd_stats.py', 'msrvtt_stats.py'])
def test_reinforcement_of_the_other_papers_trains_the_whole_model(file):
  found = reinforcement(file, '')
  assert found
  assert {objective.encoder for objective in found} == {'trained'}
