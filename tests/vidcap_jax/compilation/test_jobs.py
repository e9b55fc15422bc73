"""Which programs a run compiles."""

import dataclasses

import jax
import pytest
from etils import epath
from ml_collections import ConfigDict

from configs import common
from tests import tiny
from tests.vidcap_jax.compilation.test_abstract_stage import described
from vidcap_jax import config_files
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.compilation.abstract_stage import make_stage
from vidcap_jax.compilation.jobs import Selection, find_jobs, program_of
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed.mesh import make_mesh, to_devices
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.evaluation import retrieve
from vidcap_jax.inference import rerank
from vidcap_jax.inference.captioning import batches_of

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
  lengths = (7, 9, 11, 13, 16, 21)
  assert programs == [*(('temporal', 'step', n) for n in lengths), ('temporal', 'beam', 21)]
  assert not notes


def test_a_model_without_captions_has_no_decoder():
  programs, notes = found(load('configs/vatex_fusion.py'), programs=('greedy', 'sample'))
  stages = ('temporal', 'temporal_rl', 'spatial', 'spatial_rl')
  assert programs == [(stage, method, 21) for stage in stages for method in ('greedy', 'sample')]
  assert not notes


def test_programs_of_an_embedding_and_of_fusion():
  programs, _ = found(load('configs/vatex_fusion.py'))
  of_embedding = [(program, n) for stage, program, n in programs if stage == 'embedding'][-3:]
  assert of_embedding == [('step', 21), ('embed videos', 21), ('embed captions', 21)]
  assert programs[-1] == ('fusion', 'choose', 21)


def test_choosing_key_frames_runs_the_model_of_its_source():
  jobs, _ = find_jobs(load('configs/msrvtt_refocus.py'), Selection(stage='choose'), TOPOLOGY)
  (job,) = jobs
  assert (job.stage, job.program, job.length) == ('choose', 'key_frames', 16)
  assert job.config.model.passes == 2
  assert job.rows == job.config.eval.batch_size


def test_a_stage_with_the_model_of_a_checkpoint_is_named():
  config = load('configs/msrvtt_refocus.py')
  config.stages.choose.train.init_from = 'runs/earlier'
  programs, notes = found(config, stage='choose')
  assert not programs
  assert 'choose' in notes[0]


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


@pytest.mark.parametrize('beam', [10**6, 10**15])
def test_a_beam_that_is_wider_than_the_vocabulary_is_refused(beam, tiny_data):
  config = tiny.get_config(tiny_data)
  config.decode.beam = beam
  with pytest.raises(ConfigError, match=f'decode.beam={beam}'):
    find_jobs(config, Selection(data=tiny_data), TOPOLOGY)


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
  programs = ('step', 'draw', 'greedy', 'beam', 'sample')  # those of a captioner
  jobs, _ = find_jobs(config, Selection(programs=programs), TOPOLOGY)
  assert len(jobs) == 6
  stage = make_stage(jobs[0].config, jobs[0].data, make_mesh())
  for job in jobs:
    function, arguments = program_of(stage, job)
    assert function.trace(*arguments).jaxpr.jaxpr.eqns


class Called(Exception):
  """A program's arguments are known."""


def arguments_of(call):
  """What a jitted function is called with, which is not run."""
  found = []

  def capture(*arguments):
    found.append(described(arguments))
    raise Called

  with pytest.raises(Called):
    call(capture)
  return found[0]


@pytest.fixture(scope='module')
def fused(tiny_data):
  """``fused(program)``: a job of a config with an embedding and fusion, its stage and a model."""
  config = tiny.fused_config(tiny_data)
  jobs, _ = find_jobs(config, Selection(data=tiny_data), TOPOLOGY)
  by_program = {job.program: job for job in jobs}
  stage = make_stage(by_program['choose'].config, by_program['choose'].data, make_mesh())
  params = jax.jit(lambda key: stage.programs.initialise(key).params)(jax.random.key(0))
  params = jax.device_put(params, stage.programs.state_shardings.params)
  model = Restored(
    *(epath.Path('made_up'), {}, stage.config, stage.module, params, stage.mesh),
    *(stage.data.vocabulary, stage.shape.streams),
  )
  return lambda program: (by_program[program], stage, model)


def test_arguments_of_choosing_among_captions(fused, tiny_data, monkeypatch):
  job, stage, model = fused('choose')
  source = open_split(tiny_data, 'val')

  def call(capture):
    monkeypatch.setattr(rerank, 'make_chooser', lambda *_: capture)
    rerank.choose(model, source, [['red ball'] * 4] * len(source))  # two runs with two candidates

  _, arguments = program_of(stage, job)
  assert arguments_of(call) == described(arguments)


@pytest.mark.parametrize('program', ['videos', 'captions'])
def test_arguments_of_embedding_a_split(program, fused, tiny_data, monkeypatch):
  job, stage, model = fused(f'embed {program}')
  source = open_split(tiny_data, 'val')
  made = retrieve.make_programs(model.config, model.module, model.streams)

  def call(capture):
    replaced = dataclasses.replace(made, **{program: capture})
    monkeypatch.setattr(retrieve, 'make_programs', lambda *_: replaced)
    score = retrieve.make_ranker(
      *(model.config, model.module, model.streams, model.vocabulary, model.length, model.mesh)
    )
    score(model.params, batches_of(model, source), list(source))

  _, arguments = program_of(stage, job)
  assert arguments_of(call) == described(arguments)


def test_arguments_of_choosing_key_frames(fused, tiny_data):
  job, stage, model = fused('choose')
  job = dataclasses.replace(job, program='key_frames')
  _, rows = next(batches_of(model, open_split(tiny_data, 'val')))
  _, arguments = program_of(stage, job)
  assert described((model.params, to_devices(rows, model.mesh))) == described(arguments)


@pytest.mark.parametrize('program', ['choose', 'embed videos', 'embed captions'])
def test_programs_of_an_embedding_can_be_traced(program, fused):
  job, stage, _ = fused(program)
  function, arguments = program_of(stage, job)
  assert function.trace(*arguments).jaxpr.jaxpr.eqns


def test_choosing_key_frames_can_be_traced():
  (job,), _ = find_jobs(load('configs/msrvtt_refocus.py'), Selection(stage='choose'), TOPOLOGY)
  function, arguments = program_of(make_stage(job.config, job.data, make_mesh()), job)
  (frames,) = function.trace(*arguments).jaxpr.out_avals
  assert frames.shape == (job.rows,)
