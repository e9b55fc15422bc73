"""The passes of a step: which there are, with what annealing and what random numbers."""

import pytest
from ml_collections import ConfigDict

from vidcap_jax import config_files
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.studies.passes import BASELINE, EVALUATION, REWARD, SAMPLE, TRAINING, Pass, observe
from vidcap_jax.training.experiment import stage_config

MASKS = ('context', 'hidden', 'word')


def passes(source, stage, **changes) -> dict[str, Pass]:
  config = stage_config(config_files.load_config(source), stage)
  with config.unlocked():
    config.update_from_flattened_dict({key.replace('__', '.'): v for key, v in changes.items()})
    if changes.get('objective'):
      config.objective = ConfigDict(changes['objective'])
  return observe(make_stage(config, data_sizes.from_config_file(source, config), make_mesh()))


def test_cross_entropy_and_the_refocus_reward():
  found = passes('configs/msvd_refocus.py', 'joint')
  assert found == {
    TRAINING: Pass(True, True, ('hidden',)),
    REWARD: Pass(True, False, ()),
    EVALUATION: Pass(False, False, ()),
  }


def test_drawn_key_frames():
  found = passes('configs/msvd_refocus.py', 'joint', model__sampler='categorical')
  assert found[TRAINING].noise == ('hidden', 'key_frame')
  assert found[EVALUATION] == Pass(False, False, ())


# METEOR is computed outside of the step: then samples and baseline are programs of their own.
@pytest.mark.parametrize('meteor', [0.0, 1.0])
def test_samples_and_their_baseline(meteor):
  found = passes('configs/msvd_stats.py', 'rl', objective__rewards__meteor=meteor)
  assert found == {
    TRAINING: Pass(True, True, MASKS),
    SAMPLE: Pass(True, True, MASKS),
    BASELINE: Pass(True, True, ()),
    EVALUATION: Pass(False, False, ()),
  }


def test_the_baseline_of_runs_from_before_train_annealed():
  source = 'configs/msvd_stats.py'
  config = stage_config(config_files.load_config(source), 'rl')
  with config.unlocked():
    del config.train.annealed
  found = observe(make_stage(config, data_sizes.from_config_file(source, config), make_mesh()))
  assert found[SAMPLE] == Pass(True, True, MASKS)
  assert found[BASELINE] == Pass(False, False, ())


@pytest.mark.parametrize(
  ('source', 'noise'),
  [
    ('configs/dual_afr.py:hard', ('context', 'hidden', 'layer', 'position', 'word')),
    ('configs/global2local.py', ('between', 'gumbel', 'hidden', 'word')),
    ('configs/global2local.py:local2_argmax', ('between', 'hidden', 'word')),
    ('configs/vatex_fusion.py:temporal', ('hidden', 'values', 'word')),
  ],
)
def test_random_choices_are_made_in_training_alone(source, noise):
  found = passes(source, config_files.load_config(source).order[0])
  assert found == {TRAINING: Pass(True, True, noise), EVALUATION: Pass(False, False, ())}


def test_a_model_that_makes_no_captions():
  assert passes('configs/vatex_fusion.py', 'embedding') == {}


def test_an_objective_from_outside_the_package():
  found = passes(
    'configs/msrvtt1000.py', 'xe', objective={'name': 'examples.extending.objective:make'}
  )
  assert found[TRAINING].annealed
  assert found[TRAINING].train
