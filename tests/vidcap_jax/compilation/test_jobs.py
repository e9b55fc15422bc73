"""Which programs a run compiles."""

import pytest
from ml_collections import ConfigDict

from configs import common
from tests import tiny
from vidcap_jax import config_files
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.compilation.jobs import Selection, find_jobs, program_of
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import ConfigError, UserError

TOPOLOGY = read_topology('v5e:2x4')


def load(source):
  config = config_files.load_config(source)
  config.source = source
  return config


def found(config, **selection):
  jobs, notes = find_jobs(config, Selection(**selection), TOPOLOGY)
  return [(job.stage, job.program, job.length) for job in jobs], notes


def test_a_step_for_each_length_and_the_decoder_of_the_config():
  config = load('configs/vatex_fusion.py:temporal')
  programs, notes = found(config)
  lengths = (9, 11, 13, 16, 21)
  assert programs == [*(('temporal', 'step', n) for n in lengths), ('temporal', 'beam', 21)]
  assert not notes


def test_stages_without_programs_are_named():
  programs, notes = found(load('configs/vatex_fusion.py'), programs=('greedy', 'sample'))
  stages = ('temporal', 'temporal_rl', 'spatial', 'spatial_rl')  # an embedding makes no captions
  assert programs == [(stage, method, 21) for stage in stages for method in ('greedy', 'sample')]
  (note,) = notes
  assert 'fusion' in note


def test_samples_for_rewards_from_the_host():
  programs, _ = found(load('configs/msrvtt_stats.py'), programs=('draw',))
  assert programs
  assert {program for _, program, _ in programs} == {'draw samples', 'draw greedy'}


def test_one_stage():
  programs, _ = found(load('configs/vatex_fusion.py'), stage='spatial_rl')
  assert programs == [('spatial_rl', 'step', 21), ('spatial_rl', 'beam', 21)]


def test_sizes_of_a_data_set(tiny_data):
  config = tiny.get_config()
  config.source = 'nothere.py'
  jobs, _ = find_jobs(config, Selection(data=tiny_data), TOPOLOGY)
  assert [(job.program, job.length) for job in jobs] == [('step', 6), ('step', 21), ('greedy', 21)]
  assert jobs[0].data.split.videos == 7


@pytest.mark.parametrize(
  ('selection', 'message'),
  [
    ({'stage': 'spatail'}, 'spatail.*temporal, temporal_rl'),
    ({'programs': ('step', 'stop')}, 'stop.*known: step, draw, greedy, beam, sample'),
    ({'data': 'nothere'}, 'nothere'),
  ],
)
def test_wrong_selections(selection, message):
  with pytest.raises(UserError, match=message):
    found(load('configs/vatex_fusion.py'), **selection)


def test_a_config_file_without_sizes():
  config = tiny.get_config()
  config.source = 'tests/tiny.py'
  with pytest.raises(ConfigError, match='tests/tiny.py.*STREAMS.*--data=DIR'):
    found(config)


def test_settings_are_checked_before_anything_is_compiled():
  config = load('configs/quickstart.py')
  config.optimizer.name = 'adma'
  with pytest.raises(ConfigError, match='adma'):
    found(config)


def test_rows_divide_over_the_chips_as_in_the_run():
  config = load('configs/quickstart.py')
  config.eval.batch_size = 30
  config.mesh.model = 2
  (step, decode), _ = find_jobs(config, Selection(), TOPOLOGY)
  assert (step.data_axis, step.rows, decode.rows) == (4, 32, 32)
  assert (step.with_rows(64).rows, decode.with_rows(64).rows) == (64, 64)
  assert step.rows == 32


def test_every_program_can_be_traced():
  config = tiny.small_config('')
  with config.unlocked():
    config.source = 'configs/quickstart.py'
    config.objective = ConfigDict(common.self_critical())
    config.objective.from_scratch = True
    config.objective.rewards.meteor = 1.0
    config.objective.gradient = 'replay'
  programs = ('step', 'draw', 'greedy', 'beam', 'sample')
  jobs, _ = find_jobs(config, Selection(programs=programs), TOPOLOGY)
  assert len(jobs) == 6
  stage = make_stage(jobs[0].config, jobs[0].data, make_mesh())
  for job in jobs:
    function, arguments = program_of(stage, job)
    assert function.trace(*arguments).jaxpr.jaxpr.eqns
