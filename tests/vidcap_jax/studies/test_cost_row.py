"""The cost of a config: what is compiled and run, and what is refused."""

import json
import re

import jax
import numpy as np
import pytest

from vidcap_jax.errors import UserError
from vidcap_jax.studies import cost_row
from vidcap_jax.studies.cost_row import Settings
from vidcap_jax.training.memory import bytes_per_device

CONFIG = """
from configs import common
from vidcap_jax.data.schema import Stream

VARIANTS = {'variant': ('temporal', 'vanilla', 'rl', 'meteor')}
STREAMS = (Stream('image', 'sequence', (None, 32), longest=9),)
VOCABULARY = 200


def get_config(variant=''):
  chosen = common.read_variant(variant, **VARIANTS)['variant']
  model = chosen if chosen == 'vanilla' else 'temporal'
  c = common.temporal_spatial(common.base(), model)
  c.order = ('first', 'last')
  c.stages = {'first': {}, 'last': {}}
  if chosen in ('rl', 'meteor'):
    c.stages['last'] = common.reinforce('first', epochs=1.0, learning_rate=1e-4)
    c.stages['last'].objective.rewards.meteor = float(chosen == 'meteor')
  c.model.global_streams = c.model.temporal_streams = ('image',)
  c.model.hidden = c.model.embed = c.model.project = c.model.attention = 32
  c.data.max_words = 5
  c.data.length_buckets = ()
  c.data.captions_per_video = 2
  c.train.batch_size = 6
  c.eval.batch_size = 4
  c.decode.beam = 2
  return c.lock()
"""


@pytest.fixture(scope='module')
def small(tmp_path_factory):
  path = tmp_path_factory.mktemp('configs') / 'small.py'
  path.write_text(CONFIG)
  return str(path)


def test_a_row_has_memory_and_times_of_both_programs(small):
  result = cost_row.measure(Settings(small, repeats=2))
  assert result['stage'] == 'last'
  assert (result['train']['batch'], result['train']['captions']) == (6, 12)
  assert result['inference']['batch'] == 4
  for program in ('train', 'inference'):
    found = result[program]
    assert len(found['seconds']) == 2
    assert min(found['seconds']) <= found['median'] <= max(found['seconds'])
    memory = found['memory']
    held = memory['arguments'] + memory['temporary'] + memory['output'] - memory['aliased']
    assert memory['total'] == held > 0
  json.dumps(result)


def abstract(settings):
  _, config = cost_row._captioner_config(settings)
  data = cost_row._sizes(settings, config)
  return cost_row.make_stage(config, data, cost_row.make_mesh(devices=jax.devices()[:1]))


def arguments_of(source, **settings):
  """Bytes of the arguments of the training step."""
  stage = abstract(Settings(source, **settings))
  return bytes_per_device(stage.step_arguments(stage.shape.length))


def test_another_stage_and_dtype(small):
  name, stage = cost_row.captioner_stage(Settings(f'{small}:rl', stage='first', dtype='bfloat16'))
  assert (name, stage.config.objective.name) == ('first', 'cross_entropy')
  assert stage.config.train.dtype == 'bfloat16'
  with pytest.raises(UserError, match="small.py.*'second'.*first, last"):
    cost_row.captioner_stage(Settings(small, stage='second'))


def test_a_smaller_batch_and_shrunk_sizes_take_less_memory(small):
  full = arguments_of(small)
  single = arguments_of(small, batch=1, max_frames=3)
  # 6 videos of 9 frames of 32 numbers of 2 bytes, with masks, in place of one of 3 frames.
  features = (6 * 9 - 3) * (32 * 2 + 1)
  assert features <= full - single < features + 1000  # captions and numbers
  assert arguments_of(small, shrink=2) < full / 2


@pytest.mark.slow
def test_reinforcement_is_run_with_tables_of_made_up_captions(small):
  result = cost_row.measure(Settings(f'{small}:rl', batch=2, repeats=1))
  assert result['train']['median'] > 0


def test_free_memory_is_that_of_the_machine():
  assert 2**20 < cost_row.free_memory() < 2**50


@pytest.mark.parametrize(
  ('source', 'message'),
  [
    ('configs/vatex_fusion.py', "configs/vatex_fusion.py: .*'fusion'"),
    ('configs/vatex_fusion.py:embedding', "'embedding'"),
    ('{small}:meteor', "'last' .*rewards"),
  ],
)
def test_what_cannot_be_measured(source, message, small):
  with pytest.raises(UserError, match=message):
    cost_row.measure(Settings(source.format(small=small), batch=2))


def test_batches_are_full(small):
  """No padding, which a model may skip: all frames valid, captions of the full length."""
  stage = abstract(Settings(small))
  shapes = stage.batch(3, 2, 6)
  batch = cost_row.fill(shapes, stage.data, stage)
  assert jax.tree.map(lambda x: (x.shape, x.dtype), batch) == jax.tree.map(
    lambda x: (x.shape, x.dtype), shapes
  )
  assert np.all(batch['masks']['image'])
  assert np.all(np.asarray(batch['captions'])[..., :-1] > cost_row.UNK)
  assert np.all(np.asarray(batch['captions'])[..., -1] == cost_row.EOS)
  assert float(np.asarray(batch['features']['image'], np.float32).std()) > 0.1


def test_the_process_prints_json_or_an_error(small, capsys, monkeypatch):
  """A program that is larger than the free memory is not run."""
  monkeypatch.setattr(cost_row, 'free_memory', lambda: 2**15)
  cost_row.main([json.dumps({'config': f'{small}:vanilla', 'batch': 2})])
  result = json.loads(capsys.readouterr().out)
  assert result['train']['memory']['total'] > 2**15
  assert re.search('needs .*, 0 MiB', result['train']['problem'])
  assert 'median' not in result['train']
  with pytest.raises(SystemExit, match='error: .*nothing.py'):
    cost_row.main([json.dumps({'config': 'nothing.py'})])
