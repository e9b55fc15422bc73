"""The arguments that programs are compiled with are those of real training, without its data."""

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from configs import common
from tests import tiny
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import DataError
from vidcap_jax.rewards import HOST_REWARDS
from vidcap_jax.training import compiled, experiment


class Stopped(Exception):
  """The first step's arguments are known."""


def described(tree):
  """Shape, dtype and sharding of every array of a tree."""
  leaf = lambda x: (x.shape, x.dtype, x.sharding)  # noqa: E731
  return jax.tree.map(leaf, tree), jax.tree.structure(tree)


def real_arguments(config, workdir, monkeypatch):
  """What the first step of real training is called with."""
  found = []

  def capture(*_):
    def run(*arguments):
      found.append(described(arguments))
      raise Stopped

    return run

  monkeypatch.setattr(compiled, 'compile_by_shape', capture)
  with pytest.raises(Stopped):
    tiny.run(config, workdir)
  return found[0]


def abstract_arguments(config, length):
  stage_config = experiment.stage_config(config, config.order[0])
  mesh = make_mesh(config.mesh.data, config.mesh.model)
  stage = make_stage(stage_config, data_sizes.from_data_set(stage_config), mesh)
  return described(stage.step_arguments(length))


@pytest.mark.parametrize('params', ['replicated', 'full'])
def test_arguments_of_cross_entropy(params, tiny_data, tmp_path, monkeypatch):
  config = tiny.small_config(tiny_data)
  config.mesh.params = params
  real = real_arguments(config, tmp_path / 'work', monkeypatch)
  assert abstract_arguments(config, 21) == real


def test_arguments_with_reference_tables_and_rewards_from_the_host(
  tiny_data, tmp_path, monkeypatch
):
  def fake_meteor(captions, vocabulary, program):
    return lambda tokens, rows: np.zeros(tokens.shape[:2], np.float32)

  monkeypatch.setitem(HOST_REWARDS, 'meteor', fake_meteor)
  config = tiny.small_config(tiny_data)
  with config.unlocked():
    config.objective = ConfigDict(common.self_critical())
    config.objective.from_scratch = True
    config.objective.gradient = 'replay'
    config.objective.rewards.meteor = 1.0
  real = real_arguments(config, tmp_path / 'work', monkeypatch)
  assert abstract_arguments(config, 21) == real


def test_a_stream_that_the_data_lacks():
  config = experiment.stage_config(tiny.get_config(), 'xe')
  with config.unlocked():
    config.model.global_streams = ('sound',)
  data = data_sizes.from_config_file('configs/vatex_fusion.py', config)
  with pytest.raises(DataError, match="'sound'.*vatex_fusion"):
    make_stage(config, data, make_mesh())
