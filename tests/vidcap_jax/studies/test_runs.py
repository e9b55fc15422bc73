"""Reading runs from workdirs."""

import json
import shutil

import pytest

from tests import tiny
from tests.vidcap_jax.studies.test_tables import made, scored
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import evaluate
from vidcap_jax.studies import runs, tables

SCORES = {'BLEU_4': 0.3712, 'METEOR': 0.25, 'ROUGE_L': 0.5, 'CIDEr': 0.7, 'constant_CIDEr': 0.1}


def save(path, content):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(content))


def test_decoding_that_differs_from_the_run_is_shown(tmp_path):
  scored(made(tmp_path / 'a', 'configs/vatex_fusion.py:temporal'), decode={'beam': 2})
  (run,), _ = runs.find(str(tmp_path))
  assert run.data == {'val': 'mine, 3 videos; decoded with beam=2'}
  scored(
    made(tmp_path / 'a', 'configs/vatex_fusion.py:temporal', decode__beam=2), decode={'beam': 2}
  )
  (run,), _ = runs.find(str(tmp_path))
  assert run.data == {'val': 'mine, 3 videos'}
  assert run.changed == {'decode.beam': (5, 2)}


def test_runs_from_before_keys_were_added_have_not_changed_them(tmp_path):
  workdir = made(tmp_path / 'a', 'configs/msrvtt_stats.py:recipe=xe')
  saved = json.loads((workdir / 'config.json').read_text())
  del saved['train']['annealed'], saved['train']['first_epoch']
  save(workdir / 'config.json', saved)
  (run,), _ = runs.find(str(tmp_path))
  assert run.changed == {}


def test_equal_configs_are_equal_however_they_are_named():
  asked = ['configs/vatex_fusion.py', 'vatex_fusion.py:fusion', '/x/vatex_fusion.py:variant=fusion']
  assert len({str(runs.config_variant(source)) for source in asked}) == 1
  with pytest.raises(ConfigError, match='configs/nothing.py'):
    runs.config_variant('configs/nothing.py')


def test_runs_of_a_config_that_has_another_name_now(tmp_path):
  scored(made(tmp_path / 'a', 'configs/mvad_dual_afr.py:hard', seed=3))
  scored(made(tmp_path / 'b', 'configs/dual_afr.py:hard,data=mvad'))
  scored(made(tmp_path / 'c', 'configs/dual_afr.py:hard'))
  found, problems = runs.find(str(tmp_path))
  assert not problems
  assert not any(run.changed for run in found)
  (row,) = (
    row
    for row in tables.read('dual_afr', '1')[0].rows
    if (row.data, row.name) == ('M-VAD', 'dualAFR, hard')
  )
  assert [run.workdir.name for run in tables.measured(row, found)] == ['a', 'b']


def test_what_training_and_evaluation_write_is_found(tiny_run, tmp_path):
  """A finished run, and an evaluation of two checkpoints, by the code that writes them."""
  workdir = tmp_path / 'work'
  shutil.copytree(tiny_run, workdir)
  config = json.loads((workdir / 'config.json').read_text())
  save(workdir / 'config.json', {**config, 'source': 'configs/vatex_fusion.py:temporal'})
  one = restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())
  output = tmp_path / 'together' / 'val'
  with tiny.without_java():
    evaluate.evaluate_command(one, None, 'val', str(output), others=[one])
  found, problems = runs.find(str(tmp_path))
  assert not problems
  single, ensemble = found
  assert (single.workdir, single.models) == (workdir, 1)
  assert (ensemble.workdir, ensemble.models) == (output, 2)
  assert single.config == ensemble.config
  report = json.loads((output / 'metrics.json').read_text())
  assert ensemble.scores['val']['CIDEr'].value == report['CIDEr']
  assert ensemble.changed == single.changed
