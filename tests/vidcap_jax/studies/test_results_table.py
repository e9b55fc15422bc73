"""The tables of results: their lines, cells, commands and JSON."""

import json

import pytest

from tests.vidcap_jax.studies import finished
from vidcap_jax import config_files
from vidcap_jax.studies import results_rows, results_table
from vidcap_jax.studies.results_baselines import Baselines

HASH = finished.DATA['hash']


@pytest.fixture
def rows(tmp_path):
  finished.write(tmp_path / 'a' / 'seed_0', cider=0.4, train__epochs=20.0)
  finished.write(tmp_path / 'a' / 'seed_1', cider=0.6, train__epochs=20.0, seed=1)
  finished.write(tmp_path / 'b', split='val', cider=0.7)
  return results_rows.find([str(tmp_path)])[0]


@pytest.fixture
def sections(rows, tmp_path, monkeypatch):
  published = {'row': 'others', 'split': 'test', 'scores': {'CIDEr': 31.8}, 'note': 'wider | deep'}
  monkeypatch.setattr(config_files, 'published', lambda _: (published,))
  fixed = {(HASH, 'test'): {'constant: a dog': {'CIDEr': 0.1}, 'nearest: image': {'CIDEr': 0.2}}}
  swapped = {(f'{tmp_path}/a/seed_0', 'xe', 'test'): {'CIDEr': 0.12}}
  return results_table.sections(rows, Baselines(fixed, swapped))


def test_a_table_has_the_rows_that_have_its_split(sections):
  val, test = sections
  assert (val.split, [line.name for line in val.lines]) == ('val', ['a', 'b'])
  kinds = [(line.kind, line.name) for line in test.lines]
  assert kinds == [
    ('baseline', 'best constant caption'),
    ('baseline', 'nearest-neighbour captions'),
    ('published', 'others'),
    ('run', 'a'),
  ]


def test_cells(sections):
  text = results_table.as_text(sections[1])
  (line,) = [line for line in text.splitlines() if line.startswith('a ')]
  assert '50.0 ± 14.1' in line
  assert '-77.1 to 177.1' in line  # two seeds: 50.0 ± 12.706 * 10.0
  assert 'CIDEr, 95 %' in results_table.scores_markdown(sections[1])
  assert line.split()[-3:] == ['12.0', '70', '3.0']  # swapped, captions a second, minutes
  assert 'parameters' not in text  # no checkpoint has any
  assert 'Chip' in text


def test_a_page_has_scores_and_costs_in_two_tables(sections):
  scores = results_table.scores_markdown(sections[1])
  assert scores.startswith('### clips, test\n')
  assert r'| others: wider \| deep ' in scores
  assert 'captions/s' not in scores
  assert '| best constant caption ' in scores
  assert 'a dog' not in scores  # a caption of the data set
  assert 'nearest-neighbour captions: image' in scores
  costs = results_table.costs_markdown(sections)
  rows = [line.split(' | ') for line in costs.splitlines() if line.startswith('| ')]
  assert [row[0].strip('| ') for row in rows] == ['run', '---', 'a', 'b']
  assert 'Chip' in costs
  for table in (scores, costs):
    lines = [line for line in table.splitlines() if line.startswith('| ')]
    assert len({line.count(' | ') for line in lines}) == 1


def test_the_command_has_what_flags_changed(rows):
  command = results_table.command(rows[0])
  assert command.startswith('vidcap train --config=configs/msrvtt1000.py:model=transformer ')
  assert '--config.data.dir=data/clips' in command
  assert '--config.train.epochs=20.0' in command
  assert '--config.seeds=0,1' in command
  assert command.endswith('--workdir=runs/a')
  assert 'seed' not in results_table.command(rows[1])


def test_the_command_has_no_paths_of_this_machine(tmp_path):
  start = f'{tmp_path}/old/seed_3'
  finished.write(tmp_path / 'runs' / 'rl', train__init_from=start, data__length_buckets=(5, 9))
  (row,), _ = results_rows.find([f'{tmp_path}/runs'])
  command = results_table.command(row)
  assert '--config.train.init_from=runs/old/seed_3' in command
  assert "'--config.data.length_buckets=(5, 9)'" in command
  assert str(tmp_path) not in command


def test_the_command_has_no_settings_that_are_newer_than_the_run(tmp_path):
  workdir = finished.write(tmp_path / 'runs' / 'old', data__length_buckets=(5, 9))
  saved = json.loads((workdir / 'config.json').read_text())
  del saved['eval']['tokenizer']
  (workdir / 'config.json').write_text(json.dumps(saved))
  (row,), _ = results_rows.find([f'{tmp_path}/runs'])
  command = results_table.command(row)
  assert 'length_buckets' in command
  assert 'tokenizer' not in command


def test_texts_within_a_setting_are_quoted_once(tmp_path):
  finished.write(tmp_path / 'runs' / 'rl', eval__metrics=('BLEU', 'CIDEr'))
  (row,), _ = results_rows.find([f'{tmp_path}/runs'])
  command = results_table.command(row)
  assert """ "--config.eval.metrics=('BLEU', 'CIDEr')" """ in command


def test_json_has_every_seed(sections):
  entry = results_table.as_json(sections)[1]['rows'][-1]
  assert (entry['seeds'], entry['swapped_CIDEr']) == ([0, 1], 0.12)
  assert entry['scores']['CIDEr']['value'] == pytest.approx(0.5)
  assert entry['scores']['CIDEr']['interval'] == pytest.approx((-0.7706, 1.7706), abs=1e-4)
  assert entry['intervals'] == [{}, {}]  # of evaluations by earlier versions
  assert entry['timing']['step_seconds'] == 180.0
  assert entry['changed'] == {'train.epochs': 20.0}
