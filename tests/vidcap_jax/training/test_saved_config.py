"""What may differ when a run is resumed, and runs that get further stages and epochs."""

import functools
import json
import re

import pytest
from ml_collections import ConfigDict

from benchmarks import run_results
from configs import common, stats_rows
from tests import tiny
from vidcap_jax import config_diff, files
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.evaluation import evaluate
from vidcap_jax.training import saved_config


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


def test_what_changes_no_result_may_change(two_stages):
  config, workdir = two_stages
  other = config.copy_and_resolve_references()
  other.log.every_steps, other.checkpoint.keep, other.eval.splits = 7, 2, ('val',)
  other.eval.tokenizer, other.eval.meteor, other.eval.scorers = 'python', 'python', 'pycocoevalcap'
  saved_config.check_config(other, workdir)


def test_another_config_is_refused(two_stages):
  config, workdir = two_stages
  other = config.copy_and_resolve_references()
  other.train.epochs, other.model.hidden, other.eval.metrics = 5.0, 16, ('BLEU', 'CIDEr')
  with pytest.raises(DataError) as error:
    tiny.run(other, workdir)
  lines = str(error.value).splitlines()[1:]
  expected = (
    r"config.eval.metrics: \['CIDEr'\] .*\['BLEU', 'CIDEr'\] now",
    r'config.model.hidden: 8 .*16 now',
    r'config.train.epochs: 2.0 .*5.0 now',
  )
  for line, pattern in zip(lines, expected, strict=True):
    assert re.search(pattern, line)


def test_settings_can_be_mended_before_the_first_checkpoint(tiny_data, tmp_path):
  config = tiny.small_config(tiny_data)
  saved_config.check_config(config, tmp_path)
  config.train.batch_size = 16
  saved_config.check_config(config, tmp_path)
  (tmp_path / 'checkpoints' / 'xe' / '5').mkdir(parents=True)
  config.source = 'the/same/by/another/path.py'
  saved_config.check_config(config, tmp_path)
  config.train.batch_size = 8
  with pytest.raises(DataError, match='config.train.batch_size: 16 .*8 now'):
    saved_config.check_config(config, tmp_path)


def test_a_run_of_an_earlier_version_goes_on_as_it_has_begun(tiny_data, tmp_path, capsys):
  config = tiny.small_config(tiny_data)
  saved_config.check_config(config, tmp_path)
  (tmp_path / 'checkpoints' / 'xe' / '5').mkdir(parents=True)
  assert saved_config.check_config(config, tmp_path) is config
  assert capsys.readouterr().out == ''
  saved = json.loads((tmp_path / 'config.json').read_text())
  del saved['train']['annealed'], saved['train']['first_epoch']
  (tmp_path / 'config.json').write_text(json.dumps(saved))
  begun = saved_config.check_config(config, tmp_path)
  assert config_diff.as_saved(begun) == saved
  assert re.search(r'train.first_epoch, train.annealed$', capsys.readouterr().out)
  config.train.batch_size = 9
  with pytest.raises(DataError, match='config.train.batch_size: 8 .*9 now$'):
    saved_config.check_config(config, tmp_path)


def test_a_workdir_that_is_another_folder_on_each_machine(tiny_data, tmp_path, monkeypatch):
  config = tiny.small_config(tiny_data)
  for folder in ('shared', 'local'):
    (tmp_path / folder).mkdir()
  saved_config.check_config(config, tmp_path / 'shared')
  monkeypatch.setattr(saved_config, 'is_main', lambda: False)
  saved_config.check_config(config, tmp_path / 'shared')
  monkeypatch.setattr(saved_config, 'wait_for', functools.partial(files.wait_for, seconds=0))
  with pytest.raises(UserError, match='local/config.json: process 0 .*--workdir'):
    saved_config.check_config(config, tmp_path / 'local')


# ---------------------------------------------------------------- runs that grow


@pytest.mark.parametrize('epochs', [1.0, 2.0])
def test_stages_and_epochs_that_come_later_change_no_result(
  epochs, two_stages, tiny_data, tmp_path, monkeypatch, capsys
):
  """One stage, or half of it, then both: as both from the start."""
  config, workdir = two_stages
  grown = tmp_path / 'work'
  begin = tiny.staged_config(tiny_data, ('first',), first={})
  begin.train.epochs = epochs
  tiny.run(begin, grown)
  scored = []
  original = evaluate.evaluate
  monkeypatch.setattr(
    evaluate, 'evaluate', lambda *a, **k: scored.append(a[0].meta['stage']) or original(*a, **k)
  )
  capsys.readouterr()
  tiny.run(config, grown)
  output = capsys.readouterr().out
  assert f'{grown} goes on with further stages: second' in output
  assert ('[first] finished before' in output) == (epochs == 2.0)
  assert scored == ['second']  # the best step of the first one stays the same
  assert run_results.read_run(grown) == run_results.read_run(workdir)
  assert files.read_json(grown / 'config.json') == files.read_json(workdir / 'config.json')
  with pytest.raises(DataError, match='config.order: .*first, second'):  # the earlier config
    tiny.run(begin, grown)


def begun(config, workdir, *, finished=(), stages=('first',)):
  """Makes the files of a run of a config, without training."""
  saved_config.check_config(config, workdir)
  for name in stages:
    (workdir / 'checkpoints' / name / '4').mkdir(parents=True)
  files.write_json(workdir / 'stages.json', {name: {'steps': 4} for name in finished})


ROW = {'variant': 'stats', 'pooling': 'mean', 'features': 'image'}
STATS = stats_rows.stats(common.base(), ROW, (Stream('image', 'sequence', (None, 8)),))


def test_a_stage_that_has_not_begun_may_change(tiny_data, tmp_path):
  config = tiny.staged_config(tiny_data, first={}, second={'train': {'epochs': 1.0}})
  begun(config, tmp_path, finished=('first',))
  config.stages = ConfigDict({'first': {}, 'third': {'optimizer': {'learning_rate': 0.5}}})
  config.order = ('first', 'third')
  saved_config.check_config(config, tmp_path)
  assert files.read_json(tmp_path / 'config.json') == config_diff.as_saved(config)
  assert list(files.read_json(tmp_path / 'stages.json')) == ['first']


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'order': ('second', 'first')}, 'config.order: .*first'),
    ({'stages.first': {'train': {'batch_size': 4}}}, 'config.stages.first.train.batch_size'),
    ({'optimizer.learning_rate': 0.5}, 'config.optimizer.learning_rate'),
    ({'train.epochs': 1.0}, 'config.train.epochs: 2.0 .*1.0.*fewer'),
    ({'stages.first': {'train': {'epochs': 1.0}}}, 'config.stages.first.train.epochs: .*fewer'),
  ],
)
def test_what_has_begun_does_not_change(changes, message, tiny_data, tmp_path):
  config = tiny.staged_config(tiny_data, first={}, second={})
  begun(config, tmp_path, finished=('first',))
  before = (tmp_path / 'config.json').read_text()
  with config.unlocked():
    config.update_from_flattened_dict(changes)
  with pytest.raises(DataError, match=message) as error:
    saved_config.check_config(config, tmp_path)
  assert len(str(error.value).splitlines()) == 2
  assert (tmp_path / 'config.json').read_text() == before


@pytest.mark.parametrize(
  ('settings', 'finished', 'message'),
  [
    ({}, ('first',), ''),
    ({}, (), ''),
    ({'optimizer.schedule.name': 'step'}, ('first',), ''),
    ({'optimizer.schedule.name': 'cosine'}, ('first',), "optimizer.schedule.name='cosine'"),
    ({'optimizer.schedule.name': 'linear'}, (), "optimizer.schedule.name='linear'"),
    ({'model': STATS.model}, ('first',), 'train.annealed'),
    ({'model': STATS.model, 'train.annealed': (1.0, 1.0)}, ('first',), ''),
    # Validated at the end of its 2 epochs of 2 steps, though not with more of them.
    ({'eval.every_epochs': 4.0}, ('first',), 'eval.every_epochs=4 is every 8 steps'),
    ({'eval.every_epochs': 1.5}, ('first',), 'after 4 steps.*eval.every_epochs=1.5 is every 3'),
    ({'eval.every_epochs': 0.5}, ('first',), ''),
    ({'eval.every_epochs': 4.0}, (), ''),
  ],
)
def test_more_epochs_where_they_change_no_step(settings, finished, message, tiny_data, tmp_path):
  config = tiny.staged_config(tiny_data, ('first',), first={})
  with config.unlocked():
    config.update_from_flattened_dict(settings)
  begun(config, tmp_path, finished=finished)
  config.train.epochs = 3.0
  if message:
    with pytest.raises(DataError, match=f'config.train.epochs: 2.0 .*3.0.*{message}'):
      saved_config.check_config(config, tmp_path)
    assert list(files.read_json(tmp_path / 'stages.json')) == list(finished)
  else:
    saved_config.check_config(config, tmp_path)
    assert files.read_json(tmp_path / 'stages.json') == {}
    assert files.read_json(tmp_path / 'config.json')['train']['epochs'] == 3.0


def test_a_stage_that_ended_within_an_epoch_gets_no_more(tiny_data, tmp_path):
  config = tiny.staged_config(tiny_data, ('first',), first={'train': {'epochs': 1.5}})
  begun(config, tmp_path, finished=('first',))
  config.stages.first.train.epochs = 3.0
  with pytest.raises(DataError, match="epochs: 1.5 .*3.0.*'first' has ended within an epoch"):
    saved_config.check_config(config, tmp_path)


def test_only_the_last_stage_that_has_begun_gets_more_epochs(tiny_data, tmp_path):
  config = tiny.staged_config(tiny_data, first={}, second={'train': {'epochs': 1.0}})
  begun(config, tmp_path, finished=('first', 'second'), stages=('first', 'second'))
  config.train.epochs = 3.0
  with pytest.raises(DataError, match="config.train.epochs: .*'second'"):
    saved_config.check_config(config, tmp_path)
  config.train.epochs, config.stages.second.train.epochs = 2.0, 5.0
  saved_config.check_config(config, tmp_path)
  assert list(files.read_json(tmp_path / 'stages.json')) == ['first']


def test_a_start_that_ended_between_two_files_is_repeated(tiny_data, tmp_path, monkeypatch):
  """stages.json no longer lists the stage, config.json has the earlier epochs: both ways go on."""
  config = tiny.staged_config(tiny_data, ('first',), first={})
  begun(config, tmp_path, finished=('first',))
  (tmp_path / 'eval' / 'test').mkdir(parents=True)
  longer = config.copy_and_resolve_references()
  with longer.unlocked():
    longer.train.epochs, longer.order, longer.stages.second = 3.0, ('first', 'second'), {}
  write = saved_config.write_json

  def killed(path, data):
    if path.name == 'config.json':
      raise KeyboardInterrupt
    write(path, data)

  with monkeypatch.context() as patch:
    patch.setattr(saved_config, 'write_json', killed)
    with pytest.raises(KeyboardInterrupt):
      saved_config.check_config(longer, tmp_path)
  saved_config.check_config(config, tmp_path)
  assert files.read_json(tmp_path / 'config.json') == config_diff.as_saved(config)
  saved_config.check_config(longer, tmp_path)
  assert files.read_json(tmp_path / 'config.json') == config_diff.as_saved(longer)
  assert files.read_json(tmp_path / 'stages.json') == {}
  assert (tmp_path / 'eval' / 'first' / 'test').is_dir()
