"""Training from Python: overrides, the finished run, and errors that are raised."""

import json
import pathlib
import signal

import pytest
from ml_collections import ConfigDict

import vidcap_jax as vc
from tests import tiny
from vidcap_jax.api import training
from vidcap_jax.studies import run_pictures
from vidcap_jax.training import experiment
from vidcap_jax.training.train import Preempted


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
  monkeypatch.setattr(run_pictures, 'draw', lambda *_: None)
  with tiny.unscored_by_java():
    yield


def test_a_run(inside, tmp_path):
  overrides = {'log.every_steps': 2, 'eval.splits': ('test',)}
  run = vc.train('my_config.py', tmp_path / 'run', **overrides)
  saved = json.loads((tmp_path / 'run' / 'config.json').read_text())
  assert (saved['log']['every_steps'], saved['eval']['splits']) == (2, ['test'])
  assert saved['source'] == 'my_config.py'
  assert run.workdir == tmp_path / 'run'
  assert run.scores['test']['videos'] == 2
  entry = json.loads((run.workdir / 'stages.json').read_text())['xe']
  assert (run.metric, run.score) == ('CIDEr', entry['best_score'])
  assert 'CIDEr' in repr(run)
  assert vc.load(run.workdir).caption('clip.mp4')[0].caption


def test_a_config_object_is_not_changed(inside, monkeypatch, tmp_path):
  started = []
  monkeypatch.setattr(experiment, 'run', lambda config, *_: started.append(config) or {})
  config = tiny.short_config(str(inside / 'data' / 'mine'))
  overrides = {'seed': 3, 'data.dir': pathlib.Path('data/mine'), 'optimizer.learning_rate': 1}
  run = vc.train(config, tmp_path, **overrides)
  assert (started[0].seed, started[0].data.dir) == (3, 'data/mine')
  assert repr(started[0].optimizer.learning_rate) == '1.0'
  assert (config.seed, config.data.dir) == (0, str(inside / 'data' / 'mine'))
  assert (run.score, run.scores) == (None, {})


@pytest.mark.parametrize(
  ('overrides', 'words'),
  [
    ({'train.epoch': 3}, 'config.train.epoch: .*train.epochs'),
    ({'seeed': 3}, 'config.seeed: .*seed'),
    ({'train.epochs.x': 3}, 'config.train.epochs.x'),
    ({'train.epochs': 'many'}, "config.train.epochs: .*number.*'many'"),
    ({'train': 3}, 'config.train: .*section.*3'),
    ({'model.droput': 0.1}, 'config.model.droput: .*model.dropout'),
  ],
)
def test_overrides_that_do_not_fit(inside, tmp_path, overrides, words):
  with pytest.raises(vc.UserError, match=words):
    vc.train('my_config.py', tmp_path / 'run', **overrides)
  assert not (tmp_path / 'run').exists()


def test_settings_that_a_config_leaves_out_can_be_changed():
  config = ConfigDict(
    {'model': {'name': 'temporal_spatial'}, 'objective': {'name': 'cross_entropy'}}
  )
  training.override(config, {'model.dropout': 0.25})
  assert config.model.dropout == 0.25


def test_errors_are_raised(inside, tmp_path, monkeypatch):
  with pytest.raises(vc.UserError, match='gone.py'):
    vc.train('gone.py', tmp_path / 'run')
  with pytest.raises(vc.UserError, match='runs/mine.*\n.*train.batch_size'):
    vc.train('my_config.py', 'runs/mine', **{'train.batch_size': 16})

  def stop(number):
    def run(*_):
      raise Preempted(number, 'stopped at step 3')

    monkeypatch.setattr(experiment, 'run', run)

  stop(signal.SIGINT)
  with pytest.raises(KeyboardInterrupt, match='step 3'):
    vc.train('my_config.py', tmp_path / 'run')
  stop(signal.SIGTERM)
  with pytest.raises(Preempted, match='step 3'):
    vc.train('my_config.py', tmp_path / 'run')
