"""Captions and attention compared with the known answers, and one probe from end to end."""

import json

import numpy as np
import pytest

from benchmarks import probe_models
from benchmarks import probes as benchmark
from benchmarks.probe_models import Tiny, Trial
from benchmarks.probes import Measured
from data_prep.synthetic import probes
from tests import tiny

ANSWERS = (
  {'position': 1, 'word': 'cup', 'look': {'frames': [2, 3], 'cells': [0]}},
  {'position': 3, 'word': 'ball', 'look': {'cells': [1]}},
)


def test_every_answer_must_be_at_its_position():
  assert benchmark.is_correct('a cup then ball', ANSWERS)
  assert benchmark.is_correct('the cup or ball fell', ANSWERS)
  for wrong in ('a ball then cup', 'a cup then', 'a red cup then ball', 'cup ball', ''):
    assert not benchmark.is_correct(wrong, ANSWERS)


def test_hits_and_weights_are_means_over_the_words_since_the_last_answer():
  frames, cells = np.zeros((5, 4)), np.zeros((5, 2))
  frames[:2] = [[0.6, 0.2, 0.1, 0.1], [0.0, 0.1, 0.8, 0.1]]
  cells[:2] = [[0.8, 0.2], [0.6, 0.4]]
  cells[2:4] = [[0.9, 0.1], [0.7, 0.3]]
  cells[4] = [0, 1]  # after the last answer: ignored
  weights = {'temporal': frames, 'spatial': cells}
  hits, on_truth = zip(*benchmark.attention_hits(weights, ANSWERS, {'spatial': 'cells'}))
  assert hits == (True, False)
  np.testing.assert_allclose(on_truth, [0.7, 0.2])
  # The second answer has no frames to find.
  ((hit, weight),) = benchmark.attention_hits(weights, ANSWERS, {'temporal': 'frames'})
  assert hit
  np.testing.assert_allclose(weight, 0.55)
  both = {'temporal': 'frames', 'spatial': 'cells'}
  (first, second) = benchmark.attention_hits(weights, ANSWERS, both)
  assert first[0]
  np.testing.assert_allclose(first[1], 0.55 * 0.7)
  assert not second[0]
  frames[1] = [0.2, 0.3, 0.4, 0.1]
  assert not benchmark.attention_hits(weights, ANSWERS, both)[0][0]


def test_nested_choices_give_joint_weights():
  """Two frames and a cell in each are picked; slots are frame * 2 + cell."""
  answers = [{'position': 0, 'word': 'cup', 'look': {'slots': [1, 4]}}]
  frames, cells = np.zeros((1, 2, 3)), np.zeros((1, 2, 2))
  frames[0] = [[1, 0, 0], [0, 0.2, 0.8]]
  cells[0] = [[0.4, 0.6], [0.9, 0.1]]
  weights = {'keyframe': frames, 'spatial': cells}
  axes = {'keyframe * spatial': 'slots'}
  ((hit, weight),) = benchmark.attention_hits(weights, answers, axes)
  assert hit
  np.testing.assert_allclose(weight, (0.6 + 0.8 * 0.9) / 2)
  cells[0, 0] = [0.6, 0.4]  # one of the two picks is wrong
  assert not benchmark.attention_hits(weights, answers, axes)[0][0]


def test_hits_of_a_fixed_frame():
  truth = {
    'a': {'split': 'test', 'answers': [{'look': {'frames': [7, 8]}}]},
    'b': {'split': 'test', 'answers': [{'look': {'frames': [1, 2]}}]},
    'c': {'split': 'train', 'answers': [{'look': {'frames': [8]}}]},
  }
  assert benchmark.fixed_frame_hits(truth, 8) == 0.5


def test_rows_and_lines_are_means_over_seeds():
  trial = Trial('layers', Tiny('attends', {}), Tiny('pools', {}))
  results = {
    'model': [Measured(0.9, 0.5, 0.25), Measured(1.0, 0.7, 0.75)],
    'baseline': [Measured(0.2, None, None), Measured(0.4, None, None)],
  }
  (row,) = benchmark.rows(trial, results)
  assert row == {
    'probe': 'layers',
    'model': 'attends',
    'accuracy': pytest.approx(0.95),
    'baseline': 'pools',
    'baseline_accuracy': pytest.approx(0.3),
    'hit_rate': pytest.approx(0.6),
    'chance': 0.25,
  }
  line = benchmark.line(row, results)
  assert 'solved, baseline at chance' in line
  assert 'NOT' not in line
  assert '90/100' in line
  assert 'NOT solved' in benchmark.line(row | {'accuracy': 0.89}, results)
  assert 'not at chance' in benchmark.line(row | {'baseline_accuracy': 0.36}, results)
  no_attention = {'model': results['baseline'], 'baseline': results['baseline']}
  assert benchmark.rows(trial, no_attention)[0]['hit_rate'] is None

  trial = Trial('event', Tiny('attends', {}), Tiny('pools', {}), frame=8)
  task, key_frame = benchmark.rows(trial, results | {'frame': [0.2, 0.3]})
  assert (task['accuracy'], task['chance']) == (pytest.approx(0.95), 0.5)
  assert key_frame['baseline'] == 'middle frame'
  assert key_frame['accuracy'] == key_frame['hit_rate'] == pytest.approx(0.6)
  assert key_frame['baseline_accuracy'] == pytest.approx(0.25)
  assert '(50/70)' in benchmark.line(key_frame, results)


def test_unknown_probes_are_refused(capsys):
  with pytest.raises(SystemExit):
    benchmark.main(['--probes=telepathy'])
  assert 'telepathy; known: order' in capsys.readouterr().err
  with pytest.raises(SystemExit):
    benchmark.main(['--settings=printed'])
  assert 'printed; known: probe, published' in capsys.readouterr().err


def test_settings_choose_the_trials_that_run(tmp_path, monkeypatch, capsys):
  labels = []

  def measure(trial, seeds, workdir):
    labels.append(trial.model.label)
    measured = [Measured(1.0, 1.0, 1.0)] * len(seeds)
    return {'model': measured, 'baseline': measured, 'frame': [0.3] * len(seeds)}

  monkeypatch.setattr(benchmark, 'measure', measure)
  assert benchmark.main(['--settings=published', f'--workdir={tmp_path}']) == 0
  assert labels == ['stats ts published', 'refocus vre published', 'global2local 2f published']
  assert 'refocus vre published' in capsys.readouterr().out
  labels.clear()
  assert benchmark.main(['--probes=key', '--settings=probe', f'--workdir={tmp_path}']) == 0
  assert labels == ['global2local 2f']


@pytest.mark.slow
def test_a_probe_from_end_to_end(tmp_path, monkeypatch, capsys):
  """The training is too short to learn anything, but all results exist."""
  prepare = probes.prepare
  monkeypatch.setattr(
    probes,
    'prepare',
    lambda folder, name, seed: prepare(folder, name, seed, {'train': 8, 'val': 4, 'test': 6}),
  )
  short = {'train': {'batch_size': 8, 'epochs': 1.0}}
  spatial, vanilla = (
    Tiny(t.label, {**t.config, **short}, t.attention_axes)
    for t in (probe_models.SPATIAL, probe_models.VANILLA)
  )
  monkeypatch.setattr(benchmark, 'TRIALS', (Trial('object', spatial, vanilla),))
  command = [f'--workdir={tmp_path / "w"}', f'--json={tmp_path / "t.json"}', '--seeds=5']
  with tiny.without_java():
    assert benchmark.main(command) == 0
  (row,) = json.loads((tmp_path / 't.json').read_text())
  assert set(row) == {
    *('probe', 'model', 'accuracy', 'baseline', 'baseline_accuracy', 'hit_rate', 'chance')
  }
  assert 0 <= row['hit_rate'] <= 1
  assert round(row['accuracy'] * 6, 6) in range(7)
  assert 'temporal_spatial spatial' in capsys.readouterr().out
