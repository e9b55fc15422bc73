"""Stages and workdirs, without subprocesses."""

import json
import shutil

import pytest
from etils import epath
from ml_collections import ConfigDict

from benchmarks import run_results
from configs import common
from tests import tiny
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import ConfigError, DataError, UserError
from vidcap_jax.evaluation import evaluate
from vidcap_jax.training import experiment
from vidcap_jax.training.metric_log import read_metric_log


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


def reward(baseline) -> ConfigDict:
  objective = common.self_critical()
  objective.baseline = baseline
  return objective


# ---------------------------------------------------------------- stages


def test_the_second_stage_starts_from_the_first(two_stages):
  _, workdir = two_stages
  stages = json.loads((workdir / 'stages.json').read_text())
  assert list(stages) == ['first', 'second']
  assert (stages['first']['steps'], stages['second']['steps']) == (4, 2)
  losses = {(r['stage'], r['step']): r['loss'] for r in read_metric_log(workdir) if 'loss' in r}
  assert len(losses) == 6
  # The same batch, as steps and order of a stage begin anew, and parameters that have learned.
  assert losses['second', 1] < losses['first', 1]
  for folder in ('eval/first/test', 'eval/test'):
    assert len(json.loads((workdir / folder / 'captions.json').read_text())) == 2
  report = json.loads((workdir / 'eval' / 'test' / 'metrics.json').read_text())
  assert report['stage'] == 'second'


def test_finished_stages_are_not_run_again(two_stages, capsys):
  config, workdir = two_stages
  before = run_results.read_run(workdir)
  times = {p: p.stat().st_mtime_ns for p in workdir.rglob('*') if p.is_file()}
  tiny.run(config, workdir)
  output = capsys.readouterr().out
  assert '[first] finished before' in output
  assert '[second] finished before' in output
  assert 'stage 2 of 2: second, cross entropy' in output
  assert 'loss' not in output
  assert f'results are in {workdir / "eval"}; to caption videos: ' in output
  assert run_results.read_run(workdir) == before
  assert {p: p.stat().st_mtime_ns for p in workdir.rglob('*') if p.is_file()} == times


def test_a_stage_after_finished_ones_is_resumed(two_stages, tmp_path, capsys):
  config, workdir = two_stages
  again = tmp_path / 'work'
  shutil.copytree(workdir, again)
  shutil.rmtree(again / 'checkpoints' / 'second')  # killed before its first checkpoint
  stages = json.loads((again / 'stages.json').read_text())
  (again / 'stages.json').write_text(json.dumps({'first': stages['first']}))
  tiny.run(config, again)
  output = capsys.readouterr().out
  assert '[first] finished before' in output
  assert f'[second] parameters from {again / "checkpoints" / "first"}' in output
  assert ', all of them' in output
  assert run_results.read_run(again) == run_results.read_run(workdir)


@pytest.mark.parametrize(
  ('order', 'stages', 'message'),
  [
    (('one',), {'two': {}}, r"order names stage 'one'; config.stages has: two"),
    (
      ('one',),
      {'one': {'train': {'epoch': 3.0}}},
      r'config.stages.one.train.epoch: .*train.epochs',
    ),
    (('one',), {'one': {'train': {'epochs': 'three'}}}, r'config.stages.one.train.epochs: .*float'),
    (('one',), {'one': {'train': 3}}, r'config.stages.one'),
    (
      ('one', 'two'),
      {'one': {'train': {'init_from': 'stage:two'}}, 'two': {}},
      "train.init_from 'stage:two' of stage 'one' is no stage with task 'train' that .*: none",
    ),
    (
      ('one',),
      {'one': {'train': {'init_from': '/nowhere'}}},
      r'init_from.*nowhere: no such folder',
    ),
    # What is wrong with the second is found before the first is trained.
    (
      ('one', 'two'),
      {'one': {}, 'two': {'optimizer': {'name': 'sgdd'}}},
      "stage 'two': .*optimizer.name 'sgdd'",
    ),
    (
      ('one', 'two'),
      {'one': {}, 'two': {'model': {'variant': 'spatial'}}},
      "stage 'two': .*stream",
    ),
    (
      ('one', 'two'),
      {'one': {}, 'two': {'objective': reward('x'), 'train': {'init_from': 'stage:one'}}},
      "stage 'two': unknown objective.baseline 'x'",
    ),
    (('one',), {'one': {'data': {'cache': 'disk'}}}, "data.cache='disk' is not known; known: none"),
    (('one',), {'one': {'mesh': {'params': 'half'}}}, "unknown mesh.params 'half'; known: repl"),
    (('one',), {'one': {'mesh': {'model': 2}}}, 'stages.one.mesh.model: .* set config.mesh.model$'),
    (
      ('one',),
      {'one': {'runtime': {'check_nans': True}}},
      'config.stages.one.runtime.check_nans: .* set config.runtime.check_nans',
    ),
    (
      ('one',),
      {'one': {'eval': {'splits': ('val',)}}},
      'config.stages.one.eval.splits: .* set config.eval.splits',
    ),
  ],
)
def test_wrong_stages(order, stages, message, tiny_data, tmp_path):
  with pytest.raises(UserError, match=message):
    tiny.run(tiny.staged_config(tiny_data, order, **stages), tmp_path / 'work')
  assert read_metric_log(tmp_path / 'work') == []


# ---------------------------------------------------------------- workdirs


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (
      {'objective': {'name': 'self_critical', 'sampels': 2}},
      "stage 'second'.*config.objective.sampels.*objective.samples",
    ),
    ({'objective': {'drawn': 2}}, "'second'.*config.objective.drawn"),
    ({'train': {'epoch': 2.0}}, 'stages.second.*epoch.*epochs'),
  ],
)
def test_unknown_keys_of_a_stage_are_refused(changes, message, tiny_data, tmp_path):
  config = tiny.staged_config(tiny_data, first={}, second=changes).lock()
  with pytest.raises(UserError, match=message):
    tiny.run(config, tmp_path / 'work')
  assert read_metric_log(tmp_path / 'work') == []


def test_scores_that_another_command_left_are_made_again(two_stages, tmp_path, monkeypatch):
  config, workdir = two_stages
  shutil.copytree(workdir, tmp_path / 'work')
  tiny.run(config, tmp_path / 'work')
  path = tmp_path / 'work' / 'eval' / 'test' / 'metrics.json'
  right, made = json.loads(path.read_text()), []
  original = evaluate.evaluate
  monkeypatch.setattr(evaluate, 'evaluate', lambda *a, **k: made.append(a[2]) or original(*a, **k))
  tiny.run(config, tmp_path / 'work')
  assert made == []
  for wrong in (
    {'data': {**right['data'], 'hash': 'other'}},
    {'decode': {**right['decode'], 'beam': 7}},
    {'ensemble': {'checkpoints': ['/one', '/other']}},
  ):
    path.write_text(json.dumps({**right, **wrong}))
    tiny.run(config, tmp_path / 'work')
    assert json.loads(path.read_text()) == right
  path.write_text('{"CIDEr": 0.')
  tiny.run(config, tmp_path / 'work')
  assert json.loads(path.read_text()) == right
  assert made == ['test'] * 4


def test_a_finished_stage_whose_checkpoint_is_damaged(two_stages, tmp_path):
  config, workdir = two_stages
  again = tmp_path / 'work'
  shutil.copytree(workdir, again)
  for file in (again / 'checkpoints' / 'second').rglob('*'):
    if file.is_file() and 'metadata' in file.parts:
      file.write_bytes(file.read_bytes()[:9])
  with pytest.raises(DataError, match="'second' .*stages.json"):
    tiny.run(config, again)


def test_refused_settings_leave_no_workdir(tiny_data, tmp_path):
  config = tiny.short_config(tiny_data)
  config.train.batch_size = 0
  with pytest.raises(UserError, match='train.batch_size'):
    tiny.run(config, tmp_path / 'runs' / 'new')
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
  ('stage', 'key', 'value', 'words'),
  [
    ({}, 'tokenizer', 'java', "'xe'.*eval.tokenizer=java"),
    ({}, 'meteor', 'java', "'xe'.*eval.meteor=java"),
    ({'eval': {'meteor': 'pyhton'}}, 'meteor', 'auto', "'xe'.*eval.meteor.*pyhton.*python"),
    ({'eval': {'metrics': ('CIDEr', 'RefEmbedding')}}, 'embedding_model', '/gone', "'xe'.*/gone"),
  ],
)
def test_missing_programs_of_scores_leave_no_workdir(
  stage, key, value, words, tiny_data, tmp_path, monkeypatch
):
  monkeypatch.setattr('vidcap_jax.evaluation.java.find_java', lambda: None)
  config = tiny.short_config(tiny_data)
  config.eval[key], config.stages.xe = value, stage
  with pytest.raises(UserError, match=words):
    tiny.run(config, tmp_path / 'runs' / 'new')
  assert list(tmp_path.iterdir()) == []


def test_scores_are_computed_by_the_programs_of_the_config_of_today(two_stages, tmp_path):
  config, workdir = two_stages
  shutil.copytree(workdir, tmp_path / 'work')
  other = config.copy_and_resolve_references()
  other.eval.tokenizer, other.eval.meteor, other.eval.scorers = 'python', 'python', 'pycocoevalcap'
  other.eval.splits = ('val',)
  tiny.run(other, tmp_path / 'work')
  report = json.loads((tmp_path / 'work' / 'eval' / 'val' / 'metrics.json').read_text())
  assert '|tok:ptb-3.4.1-python|scorers:meteor-python+pycocoevalcap' in report['signature']


@pytest.mark.parametrize('beam', [10**6, 10**15])
def test_a_beam_that_is_wider_than_the_vocabulary_is_refused_before_training(
  beam, tiny_data, tmp_path
):
  config = tiny.short_config(tiny_data)
  config.decode.beam = beam
  with pytest.raises(ConfigError, match=rf"'xe': .*decode\.beam={beam}: .*vocabulary"):
    tiny.run(config, tmp_path)
  assert not (tmp_path / 'checkpoints').exists()
  (tmp_path / 'checkpoints' / 'xe' / '5').mkdir(parents=True)  # begun before there was the limit
  stages = {'xe': experiment.stage_config(config, 'xe')}
  experiment.check_stages(stages, make_mesh(), epath.Path(tmp_path))


def test_another_data_set_in_the_same_folder_is_refused(two_stages, tiny_data, tmp_path):
  config, workdir = two_stages
  again, data = tmp_path / 'work', tmp_path / 'source' / 'data'
  shutil.copytree(workdir, again)
  (again / 'stages.json').unlink()
  tiny.build(tmp_path / 'source', tiny.SPLITS[1:])
  moved = config.copy_and_resolve_references()
  moved.data.dir = str(data)
  saved = json.loads((again / 'config.json').read_text())
  saved['data']['dir'] = str(data)
  (again / 'config.json').write_text(json.dumps(saved))
  with pytest.raises(DataError, match='has changed since this workdir was trained'):
    tiny.run(moved, again)
  assert checkpoint.steps(again / 'checkpoints' / 'first') != []


# ---------------------------------------------------------------- broken checkpoints


def test_training_goes_on_from_the_newest_whole_checkpoint(two_stages, tmp_path, capsys):
  config, workdir = two_stages
  again = tmp_path / 'work'
  shutil.copytree(workdir, again)
  shutil.rmtree(again / 'checkpoints' / 'second')
  (again / 'stages.json').unlink()
  folder = again / 'checkpoints' / 'first'
  assert checkpoint.steps(folder) == [2, 4]
  (folder / '4' / '_CHECKPOINT_METADATA').unlink()
  (folder / '9').mkdir()
  tiny.run(config, again)
  captured = capsys.readouterr()
  assert '[first] restored step 2 ' in captured.out
  assert captured.err.count('.broken') == 2
  assert run_results.read_run(again) == run_results.read_run(workdir)
