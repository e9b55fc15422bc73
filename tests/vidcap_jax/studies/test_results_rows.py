"""The rows of the table of results: which runs are one row, and what is read of them."""

import json
import shutil

import jax
import pytest

from tests.vidcap_jax.studies import finished
from vidcap_jax.errors import UserError
from vidcap_jax.studies import results_rows


def test_scores_and_times_of_a_run(tmp_path):
  finished.write(tmp_path / 'deep' / 'a')
  (row,), problems = results_rows.find([str(tmp_path)])
  assert not problems
  assert (row.name, row.recipe, row.stage) == ('deep/a', 'msrvtt1000:model=transformer', 'xe')
  assert row.scores('test')['CIDEr'] == results_rows.Score(0.5)
  assert row.scores('val')['CIDEr'].value == pytest.approx(0.4)  # of metrics.jsonl
  (member,) = row.members
  assert member.finished
  assert member.data == ('clips', finished.DATA['hash'])
  assert (member.parameters, member.hardware) == (None, '2 cores, Chip')
  timing = member.timing
  assert (timing.epochs, timing.best_epoch, timing.step_seconds) == (2.0, 2.0, 180.0)
  assert (timing.captions_per_second, timing.run_seconds) == (70.0, 210.0)


def test_seeds_are_one_row_with_mean_and_deviation(tmp_path):
  finished.write(tmp_path / 'a' / 'seed_0', cider=0.4)
  finished.write(tmp_path / 'a' / 'seed_1', seed=1, cider=0.6)
  finished.write(tmp_path / 'later', seed=2, cider=0.8)
  (row,), _ = results_rows.find([str(tmp_path)])
  assert row.name == 'a'
  assert [member.seed for member in row.members] == [0, 1, 2]
  score = row.scores('test')['CIDEr']
  assert (score.value, score.deviation) == (pytest.approx(0.6), pytest.approx(0.2))


def test_other_settings_and_repeated_seeds_are_rows_of_their_own(tmp_path):
  finished.write(tmp_path / 'a')
  finished.write(tmp_path / 'again')
  finished.write(tmp_path / 'longer', train__epochs=20.0, seed=1)
  rows, _ = results_rows.find([str(tmp_path)])
  assert [row.name for row in rows] == ['a', 'again', 'longer']


def test_starts_from_the_seeds_of_another_run_are_the_same_recipe(tmp_path):
  for seed in (0, 1):
    start = f'runs/xe/seed_{seed}'
    finished.write(tmp_path / f'rl_{seed}', seed=seed, train__init_from=start)
  (row,), _ = results_rows.find([str(tmp_path)])
  assert len(row.members) == 2


def test_runs_without_scores_and_damaged_ones_are_named(tmp_path):
  finished.write(tmp_path / 'good')
  empty = finished.write(tmp_path / 'empty')
  shutil.rmtree(empty / 'eval')
  (empty / 'metrics.jsonl').unlink()
  damaged = finished.write(tmp_path / 'damaged')
  (damaged / 'config.json').write_text(json.dumps({'seed': 0}))
  listed = finished.write(tmp_path / 'listed')
  (listed / 'eval' / 'test' / 'metrics.json').write_text('[]')
  untimed = finished.write(tmp_path / 'untimed')
  (untimed / 'goodput.json').write_text('3')
  with (finished.write(tmp_path / 'written') / 'metrics.jsonl').open('a') as file:
    file.write('garbage')
  rows, problems = results_rows.find([str(tmp_path)])
  assert [row.name for row in rows] == ['good']
  named = [problem.removeprefix(f'{tmp_path}/').partition(':')[0] for problem in problems]
  assert named == [
    *('damaged', 'empty', 'listed/eval/test/metrics.json', 'untimed/goodput.json'),
    'written/metrics.jsonl, line 5',
  ]
  with pytest.raises(UserError, match='--runs=.*nowhere'):
    results_rows.find([f'{tmp_path}/nowhere'])


def test_reports_of_ensembles_and_of_the_first_versions_are_not_the_run_s_own(tmp_path):
  for name, change in {
    'ensemble': {'ensemble': {'weights': None}},
    'old': {'data': {'name': 'clips'}},
  }.items():
    path = finished.write(tmp_path / name) / 'eval' / 'test' / 'metrics.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
  rows, _ = results_rows.find([str(tmp_path)])
  assert not any(row.scores('test') for row in rows)
  assert all(row.scores('val') for row in rows)  # of metrics.jsonl


def test_what_training_writes_is_read(tiny_run, restored):
  (row,), problems = results_rows.find([str(tiny_run)])
  assert not problems
  (member,) = row.members
  assert member.parameters == sum(x.size for x in jax.tree.leaves(restored.params))
  assert member.hardware
  assert member.data == (restored.meta['data']['name'], restored.meta['data']['hash'])
  assert member.timing.epochs == 8.0
  assert 'CIDEr' in row.scores('val')
