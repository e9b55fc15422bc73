"""Early stopping, and runs of several seeds, by scores that are known before."""

import json
import shutil

import numpy as np
import pytest

from benchmarks import run_results
from tests import tiny
from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import metrics
from vidcap_jax.training.metric_log import read_metric_log


@pytest.fixture(autouse=True)
def _quick():
  with tiny.without_java():
    yield


@pytest.fixture
def scores(monkeypatch):
  """A list of the CIDEr that validations will find, one after the other."""
  script = []

  def score_details(hypotheses, references, *_, **__):
    rest = dict.fromkeys(('BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4', 'METEOR', 'ROUGE_L'), 0.125)
    corpus = {**rest, 'CIDEr': script.pop(0)}
    ids, captions = list(hypotheses), list(hypotheses.values())
    values = {name: np.full(len(ids), value) for name, value in corpus.items()}
    return metrics.ScoreDetails(ids, captions, references, corpus, values)

  monkeypatch.setattr(metrics, 'score_details', score_details)
  return script


# ---------------------------------------------------------------- early stopping


def stopping(data):
  config = tiny.small_config(data, epochs=6.0)  # 12 steps, a validation every second
  config.eval.patience = 2
  config.checkpoint.keep = 9
  return config


def test_patience_stops_and_stopped_it_stays(tiny_data, tmp_path, scores, capsys):
  config, workdir = stopping(tiny_data), tmp_path / 'work'
  scores[:] = [0.1, 0.3, float('nan'), 0.3, 0.9]
  tiny.run(config, workdir)
  assert scores == [0.9]
  assert 'no better CIDEr in 2 validations: stopped' in capsys.readouterr().out
  progress = json.loads((workdir / 'stages.json').read_text())['xe']
  # An equal score is no reason to go on, but its checkpoint is the one that is kept.
  expected = {'best_score': 0.3, 'best_step': 8, 'since_best': 2, 'stopped': True}
  assert {k: progress[k] for k in expected} == expected
  found = [(r['step'], r['CIDEr']) for r in read_metric_log(workdir) if r['kind'] == 'val']
  assert found == [(2, 0.1), (4, 0.3), (6, None), (8, 0.3)]
  assert max(r['step'] for r in read_metric_log(workdir)) == 8
  assert json.loads((workdir / 'eval/test/metrics.json').read_text())['checkpoint_step'] == 8
  finished = run_results.read_run(workdir)

  # Killed after the last step and before the stage was noted down as finished.
  (workdir / 'stages.json').unlink()
  tiny.run(config, workdir)
  assert scores == [0.9]
  assert run_results.read_run(workdir) == finished

  # Killed before the fourth validation: its count goes on from the third's.
  (workdir / 'stages.json').unlink()
  shutil.rmtree(workdir / 'checkpoints' / 'xe' / '8')
  scores[:] = [0.3, 0.9]
  tiny.run(config, workdir)
  assert scores == [0.9]
  assert run_results.read_run(workdir) == finished


# ---------------------------------------------------------------- seeds


def test_seeds_that_are_there_twice(tiny_data, tmp_path):
  config = tiny.small_config(tiny_data)
  config.seeds = (0, 1, 0)
  with pytest.raises(ConfigError, match='config.seeds.* twice'):
    tiny.run(config, tmp_path / 'work')


def test_seeds(tiny_data, tmp_path, scores, capsys):
  config = tiny.small_config(tiny_data, epochs=1.0)
  config.seeds, config.eval.splits = (0, 1), ('val',)
  scores[:] = [0.1, 0.25, 0.1, 0.75]  # validation, val; for each seed
  tiny.run(config, tmp_path / 'work')
  output = capsys.readouterr().out
  assert 'val CIDEr: 0.5000 ± 0.3536 over 2 seeds (0.2500 0.7500)' in output
  summary = json.loads((tmp_path / 'work' / 'seeds.json').read_text())
  assert summary['seeds'] == [0, 1]
  assert summary['scores']['val']['CIDEr'] == {
    'mean': 0.5,
    'stdev': pytest.approx(0.125**0.5),
    'values': [0.25, 0.75],
  }
  assert summary['scores']['val']['METEOR']['stdev'] == 0
  runs = [run_results.read_run(tmp_path / 'work' / f'seed_{seed}') for seed in (0, 1)]
  assert runs[0]['checkpoints'] != runs[1]['checkpoints']
  saved = [
    json.loads((tmp_path / 'work' / f'seed_{seed}' / 'config.json').read_text()) for seed in (0, 1)
  ]
  assert [config['seed'] for config in saved] == [0, 1]

  # Again: nothing is trained or scored; the summary is the same.
  tiny.run(config, tmp_path / 'work')
  assert json.loads((tmp_path / 'work' / 'seeds.json').read_text()) == summary
