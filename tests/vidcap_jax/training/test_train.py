"""Updates that are not finite, how batches weigh, and what is found before a stage trains."""

import pathlib
import re

import jax
import numpy as np
import pytest

from tests import tiny
from vidcap_jax import files
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.evaluation import metrics
from vidcap_jax.inference import captioning
from vidcap_jax.objectives import make_objective
from vidcap_jax.training import compiled, experiment, programs
from vidcap_jax.training.metric_log import TIMING, MetricLog, read_metric_log
from vidcap_jax.training.optimizer import make_schedule


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


# ---------------------------------------------------------------- updates that are not finite


def test_updates_that_are_not_finite_are_skipped(tiny_data, tmp_path, with_inf, capsys):
  config = tiny.small_config(tiny_data)
  config.optimizer.schedule.name = 'cosine'
  tiny.run(config, tmp_path / 'work')
  output = [line for line in capsys.readouterr().out.splitlines() if 'update skipped' in line]
  assert [line.split(':')[0] for line in output] == [f'[xe] step {step}' for step in (1, 3, 5, 7)]
  assert all('videos: ' in line and 'v0' in line and 'loss nan' in line for line in output)
  records = [r for r in read_metric_log(tmp_path / 'work') if r['kind'] == 'train']
  assert [r['skipped'] for r in records] == [1, 1, 2, 2, 3, 3, 4, 4]
  assert [r['loss'] is None for r in records] == [True, False] * 4
  assert records[7]['loss'] < records[1]['loss']
  schedule = make_schedule(config.optimizer, 2, 8)
  rates = [r['learning_rate'] for r in records[1::2]]  # the optimiser has seen four steps
  np.testing.assert_allclose(rates, [schedule(i) for i in range(4)], rtol=1e-6)
  assert all(
    np.isfinite(leaf).all() for leaf in jax.tree.leaves(tiny.read_params(tmp_path / 'work'))
  )


def test_grouped_batches_are_divided_by_their_mean_number_of_words(
  tiny_data, tmp_path, monkeypatch
):
  asked = []

  def make(config, module, tokens_per_step):
    asked.append(tokens_per_step)
    return make_objective(config, module, tokens_per_step)

  monkeypatch.setattr(programs, 'make_objective', make)
  for name, buckets in (('grouped', (6,)), ('mixed', ())):
    config = tiny.small_config(tiny_data, epochs=1.0)
    config.data.length_buckets = buckets
    tiny.run(config, tmp_path / name)
  records = open_split(tiny_data, 'train')
  texts = [caption for i in range(len(records)) for caption in records[i].captions]
  words = sum(len(text.split()) + 1 for text in texts)  # and the end of each
  assert asked == [words / 2, None]  # two steps an epoch


# ---------------------------------------------------------------- caches and precision


def records_of(config, workdir):
  tiny.run(config, workdir)
  return [{k: v for k, v in r.items() if k not in TIMING} for r in read_metric_log(workdir)]


def test_caches_change_nothing_and_bfloat16_little(tiny_data, tmp_path):
  config = tiny.short_config(tiny_data)
  records = records_of(config, tmp_path / 'none')
  for config.data.cache in ('host', 'device'):
    assert records_of(config, tmp_path / config.data.cache) == records
  config.train.dtype = 'bfloat16'
  rounded = records_of(config, tmp_path / 'bfloat16')
  losses = [[r['loss'] for r in run if r['kind'] == 'train'] for run in (records, rounded)]
  assert len(losses[0]) == 3
  assert losses[0] != losses[1] == pytest.approx(losses[0], rel=0.02)
  kept = {leaf.dtype for leaf in jax.tree.leaves(tiny.read_params(tmp_path / 'bfloat16'))}
  assert kept == {np.dtype(np.float32)}


# ---------------------------------------------------------------- what is found before training


@pytest.mark.parametrize(
  ('changes', 'error', 'message'),
  [
    ({'train.batch_size': 12}, DataError, '12 does not divide over 8 devices of .*: 8 or 16'),
    ({'model.name': 'temporal'}, ConfigError, "model.name 'temporal'.*known: dual_afr, "),
    ({'model.variant': 'spatail'}, ConfigError, "variant 'spatail' is unknown; known: vanilla"),
    ({'model.global_streams': ('motion',)}, DataError, "a stream 'motion' .* has: image"),
    ({'train.dtype': 'float16'}, ConfigError, "dtype 'float16'; known: float32, bfloat16"),
    ({'train.init_from': '/nowhere'}, DataError, 'init_from.*/nowhere: no such folder'),
    ({'optimizer.name': 'adma'}, ConfigError, "optimizer.name.*'adma'.*adam"),
    ({'optimizer.schedule.name': 'steps'}, ConfigError, "schedule.name.*'steps'.*constant"),
    ({'decode.method': 'beams'}, ConfigError, "decode.method 'beams'; known: beam"),
    ({'decode.beam': 0}, ConfigError, 'decode.beam must be at least 1'),
    ({'eval.metric': 'Cider'}, ConfigError, "eval.metric 'Cider'.*CIDEr"),
    ({'eval.metric': 'METEOR'}, ConfigError, "eval.metric 'METEOR'.*CIDEr"),
    ({'eval.metrics': ('CIDER',)}, ConfigError, "eval.metrics.*'CIDER'.*known: BLEU"),
    ({'train.scheduled_sampling.name': 'on'}, ConfigError, "scheduled.sampling.*'on'.*known"),
    ({'data.dir': ''}, DataError, 'no data: give --config.data.dir'),
    ({'data.dir': '/nowhere'}, DataError, '/nowhere.*not a data set'),
    ({'data.train_split': 'training'}, DataError, "no split 'training'; it has: train, val, test"),
    ({'data.val_split': 'test'}, UserError, 'videos without references: 2 videos .v10, v11'),
    ({'seeds': ('a',)}, ConfigError, "seeds.*'a'"),
    ({'seed': -1}, DataError, 'seed must not be negative'),
    ({'mesh.data': 3}, ConfigError, 'mesh.data=3 .* does not make 8 devices'),
  ],
)
def test_found_before_training(changes, error, message, tiny_data, tmp_path):
  config = tiny.small_config(tiny_data)
  config.update_from_flattened_dict(changes)
  with pytest.raises(error, match=message) as raised:
    experiment.run(config, tmp_path / 'work', mesh.make_mesh(config.mesh.data, config.mesh.model))
  assert read_metric_log(tmp_path / 'work') == []
  assert '\n' not in str(raised.value)


def test_no_records_but_the_last(tiny_data, tmp_path):
  config = tiny.short_config(tiny_data)
  config.log.every_steps = 0
  tiny.run(config, tmp_path)
  records = [(r['kind'], r['step']) for r in read_metric_log(tmp_path)]
  assert records == [('val', 2), ('train', 3), ('val', 3)]


def test_a_full_disk_at_the_records(tiny_data, tmp_path, monkeypatch):
  """One line that names the file; the checkpoint that was being written is waited for."""
  write, finish, finished = MetricLog.write, checkpoint.finish, []

  def to_a_full_disk(self, step, kind, values):
    if step == 3:
      self._file = pathlib.Path('/dev/full').open('w')
    write(self, step, kind, values)

  def finishing(manager):
    finish(manager)
    finished.extend(checkpoint.steps(tmp_path / 'work' / 'checkpoints' / 'xe'))

  monkeypatch.setattr(MetricLog, 'write', to_a_full_disk)
  monkeypatch.setattr(checkpoint, 'finish', finishing)
  message = f"No space left on device: '{tmp_path / 'work' / 'metrics.jsonl'}'"
  with pytest.raises(UserError, match=message), files.disk_errors():
    tiny.run(tiny.short_config(tiny_data), tmp_path / 'work')
  assert finished == [2]


# ---------------------------------------------------------------- between host and devices


def test_what_crosses_between_host_and_devices(tiny_data, tmp_path, monkeypatch):
  """Nothing goes in within a step; results are fetched where they are logged."""
  by_shape, device_get = compiled.compile_by_shape, jax.device_get
  steps, fetched = [], []

  def guarded(*settings):
    run = by_shape(*settings)

    def inside(*arguments):
      with jax.transfer_guard_host_to_device('disallow'):
        steps.append(1)
        return run(*arguments)

    return inside

  def counting(tree):
    if isinstance(tree, dict) and 'grad_norm' in tree:
      fetched.append(len(steps))
    return device_get(tree)

  monkeypatch.setattr(compiled, 'compile_by_shape', guarded)
  monkeypatch.setattr(jax, 'device_get', counting)
  config = tiny.small_config(tiny_data, epochs=2.0)
  config.log.every_steps = 3
  config.eval.every_epochs = 2.0
  tiny.run(config, tmp_path)
  assert len(steps) == 4
  assert fetched == [3, 4]


def test_the_number_of_programs_is_logged_and_no_other_is_compiled(tiny_data, tmp_path, capsys):
  """What is compiled ahead is what the steps then need: shapes, dtypes and shardings."""
  config = tiny.short_config(tiny_data)
  config.data.length_buckets = (6, 9)
  tiny.run(config, tmp_path)
  output = capsys.readouterr().out
  lengths = re.findall(r'a step with captions of (\d+) tokens takes', output)
  assert 'compiles 2 programs' in output
  assert sorted(lengths) == ['6', '9']
  assert 'another step' not in output


class CountedDecoder:
  """A jitted decoder, and the shapes that it is called with itself."""

  def __init__(self, decode):
    self._decode, self.lower, self.calls = decode, decode.lower, []

  def __call__(self, params, batch):
    self.calls.append(batch['video_index'].shape)
    return self._decode(params, batch)


def test_validation_is_compiled_ahead_for_the_arrays_that_it_gets(tiny_data, tmp_path, monkeypatch):
  make_decoder, decoders = captioning.make_decoder, []

  def make(*settings):
    decoders.append(CountedDecoder(make_decoder(*settings)))
    return decoders[-1]

  monkeypatch.setattr(captioning, 'make_decoder', make)
  monkeypatch.setattr(metrics, 'score', lambda *_, **__: ({'CIDEr': 0.5}, {}))
  config = tiny.short_config(tiny_data)
  config.eval.splits = ()
  config.mesh.params = 'full'
  tiny.run(config, tmp_path)
  assert len(decoders) == 1
  assert decoders[0].calls == []


def test_the_state_is_given_away(tiny_data, tmp_path, capsys):
  """Donated whole, so that no second copy of parameters and moments is ever held."""
  tiny.run(tiny.short_config(tiny_data), tmp_path)
  output = capsys.readouterr().out
  assert 'a step with captions of 21 tokens takes ' in output
  assert 'held twice' not in output
