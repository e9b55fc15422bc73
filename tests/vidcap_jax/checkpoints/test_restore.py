"""Which checkpoint a path names, and with which decoding settings it is restored."""

import json
import os
import shutil

import pytest
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, restore
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.training import recorder
from vidcap_jax.training.metric_log import read_metric_log


@pytest.fixture(scope='module')
def best(tiny_run) -> str:
  """The step with the best validation score in the journal, the latest of equal ones."""
  scores = [(r['CIDEr'], r['step']) for r in read_metric_log(tiny_run) if r['kind'] == 'val']
  assert len(scores) == 2
  return str(max(scores)[1])


def test_find_checkpoint(tiny_run, best, tmp_path):
  stage = tiny_run / 'checkpoints' / 'xe'
  assert checkpoint.steps(stage) == sorted({int(best), 16})
  for path in (tiny_run, stage, stage / best, f'{stage / best}/'):
    assert restore.find_checkpoint(str(path)) == stage / best
  assert restore.find_checkpoint(str(stage / '16')) == stage / '16'

  with pytest.raises(DataError, match=f'--checkpoint={tmp_path}/x'):
    restore.find_checkpoint(f'{tmp_path}/x')
  half = tmp_path / 'xe' / '7'
  half.mkdir(parents=True)
  for path in (tmp_path, tmp_path / 'xe', half):
    with pytest.raises(DataError, match=f'{path}: no checkpoint'):
      restore.find_checkpoint(str(path))


def test_each_of_several_seeds_has_its_workdir(tmp_path):
  for seed in (1, 0):
    (tmp_path / f'seed_{seed}' / 'checkpoints').mkdir(parents=True)
  (tmp_path / 'seed_2.txt').touch()
  with pytest.raises(DataError, match=f'{tmp_path}/seed_0, {tmp_path}/seed_1$'):
    restore.find_checkpoint(str(tmp_path))


def test_the_last_finished_stage_is_taken(tiny_run, best, tmp_path):
  workdir = tmp_path / '2026'  # a number, but no step
  for name in ('a_second', 'z_first'):
    shutil.copytree(tiny_run / 'checkpoints' / 'xe', workdir / 'checkpoints' / name)
  stages = {'z_first': {}, 'a_second': {}}
  (workdir / 'stages.json').write_text(json.dumps(stages))
  found = restore.find_checkpoint(str(workdir))
  assert found == workdir / 'checkpoints' / 'a_second' / best
  (workdir / 'stages.json').write_text(json.dumps({'z_first': {}}))  # a_second is still training
  found = restore.find_checkpoint(str(workdir))
  assert found == workdir / 'checkpoints' / 'z_first' / best
  os.utime(workdir / 'checkpoints' / 'z_first', (1, 1))
  (workdir / 'stages.json').unlink()  # killed in its first stage
  found = restore.find_checkpoint(str(workdir))
  assert found == workdir / 'checkpoints' / 'a_second' / best


def test_a_damaged_checkpoint_is_an_error_that_names_it(tiny_run, best, tmp_path):
  broken = tmp_path / best
  shutil.copytree(tiny_run / 'checkpoints' / 'xe' / best, broken)
  for file in (broken / 'params').rglob('*'):
    if file.is_file():
      file.write_bytes(file.read_bytes()[:20])
  with pytest.raises(DataError, match=f'{broken} '):
    restore.restore(restore.find_checkpoint(str(broken)), mesh.make_mesh())


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    (['groups=2'], "decode.groups .*decode.method 'beam'.*'greedy'"),
    (['force=ball'], "decode.force .*decode.method 'beam'.*'greedy'"),
    (['method=beam', 'groups=2', 'force=ball'], 'decode.force and decode.groups'),
    (['method=beam', 'groups=3'], '3 groups .*2'),
    (['diversity=-1'], 'diversity -1.0'),
  ],
)
def test_settings_that_contradict_each_other(changes, message, restored):
  with pytest.raises(ConfigError, match=message):
    restore.restore(restored.path, restored.mesh, changes)


def trained_on(data_dir, **meta):
  """What of a restored checkpoint its data set is found by."""
  config = ConfigDict({'data': {'dir': str(data_dir)}})
  return restore.Restored('runs/a/checkpoints/xe/8', {'data': meta}, config, *[None] * 5)


def test_the_data_set_that_was_trained_on(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'data').mkdir()
  assert trained_on('data').data_folder() == 'data'
  assert trained_on('elsewhere').data_folder('data') == 'data'
  with pytest.raises(DataError, match=r'runs/a.*/project.*elsewhere.*--data=/project/elsewhere'):
    trained_on('elsewhere', relative_to='/project').data_folder()
  with pytest.raises(DataError, match=r'elsewhere.*--data=DIR'):
    trained_on('elsewhere').data_folder()
  with pytest.raises(DataError, match=r'trained on /nowhere.*--data=DIR'):
    trained_on('/nowhere').data_folder()


def test_checkpoints_record_where_a_relative_path_starts(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert recorder.working_folder('data') == {'relative_to': str(tmp_path)}
  assert recorder.working_folder('/data') == recorder.working_folder('gs://bucket/data') == {}
