"""Stages of reinforcement, run whole: what is logged, resuming, METEOR on the host, collapse."""

import pytest
from ml_collections import ConfigDict

from benchmarks import run_results
from configs import common
from tests import tiny
from vidcap_jax.checkpoints import restore
from vidcap_jax.errors import ConfigError
from vidcap_jax.training.metric_log import read_metric_log

REPORTED = {'reward', 'baseline', 'reward_cider', 'words', 'ended', 'distinct', 'entropy'}


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


def rl_config(data, *, objective=None, **rl) -> ConfigDict:
  """Two epochs of cross entropy, then two of reinforcement."""
  config = tiny.small_config(data, epochs=2.0)
  with config.unlocked():
    section = common.self_critical()
    section.collapse.reward = 0.0
    section.update(objective or {})
    config.order = ('xe', 'rl')
    config.stages = ConfigDict(
      {'xe': {}, 'rl': {'objective': section, 'train': {'init_from': 'stage:xe'}, **rl}}
    )
  return config


def records(workdir, kind='train'):
  return [r for r in read_metric_log(workdir) if r['kind'] == kind and r['stage'] == 'rl']


@pytest.fixture(scope='module')
def finished(tiny_data, tmp_path_factory):
  """The workdir of a finished run, and its state in the middle of the second stage."""
  folder = tmp_path_factory.mktemp('rl')
  config = rl_config(tiny_data, checkpoint={'every_steps': 1})
  with tiny.without_java(), tiny.copied_at(folder / 'whole', folder / 'shots', {('saving', 3)}):
    return config, tiny.run(config, folder / 'whole'), folder / 'shots' / 'saving-3'


def test_what_is_logged(finished):
  logged = records(finished[1])
  assert [r['step'] for r in logged] == [1, 2, 3, 4]
  for record in logged:
    assert set(record) >= REPORTED
    assert record['reward'] == pytest.approx(
      record['reward_cider'] + 0.5 * record['reward_bleu4'], rel=1e-4
    )


def test_resumed_it_ends_the_same(finished):
  """The state of the objective travels in the checkpoint, its tables are made again."""
  config, whole, shot = finished
  tiny.run(config, shot)
  assert run_results.read_run(shot) == run_results.read_run(whole)


def test_collapse_ends_the_stage_and_keeps_the_best(tiny_data, tmp_path, capsys):
  collapse = {'reward': 99.0, 'ended': 0.0, 'steps': 3}
  config = rl_config(
    tiny_data, objective={'collapse': collapse}, train={'epochs': 9.0, 'init_from': 'stage:xe'}
  )
  config.log.every_steps = 4  # decides nothing
  tiny.run(config, tmp_path)
  output = capsys.readouterr().out
  assert 'samples have collapsed: for 10 steps they earned less than' in output
  assert [r['collapsed'] for r in records(tmp_path)] == [4, 8]
  assert [r['step'] for r in records(tmp_path, 'val')] == [2, 4, 6, 8, 10]
  assert restore.finished_stages(tmp_path)['rl']['stopped']


def test_it_does_not_begin_from_nothing(tiny_data, tmp_path):
  with pytest.raises(ConfigError, match='starts from a trained model'):
    tiny.run(rl_config(tiny_data, train={'init_from': ''}), tmp_path)
