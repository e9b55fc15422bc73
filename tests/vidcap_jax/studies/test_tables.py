"""The published tables, and runs listed in them."""

import importlib
import json
import pathlib
import re

import pytest

from configs import common
from vidcap_jax.config_diff import as_saved
from vidcap_jax.studies import listing, runs, tables

PAPERS = tables.papers()
SCORES = {'BLEU_4': 0.3712, 'METEOR': 0.25, 'ROUGE_L': 0.5, 'CIDEr': 0.7, 'constant_CIDEr': 0.1}


def save(path, content):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(json.dumps(content))


def made(workdir, source, **changes):
  """A workdir whose config is that of the source with some settings changed."""
  path, _, variant = source.partition(':')
  module = importlib.import_module(f'configs.{pathlib.PurePath(path).stem}')
  config = module.get_config(variant)
  config.source = source
  config.data.dir = '/somewhere'
  for key, value in changes.items():
    config.update_from_flattened_dict({key.replace('__', '.'): value})
  save(workdir / 'config.json', as_saved(config))
  return workdir


def scored(workdir, split='val', decode=None, stage='', about=(), **scores):
  decode = {**common.base().decode.to_dict(), **(decode or {})}
  report = {'references': True, 'videos': 3, 'checkpoint_step': 4, 'data': {'name': 'mine'}}
  report |= {'stage': 'temporal', 'decode': decode, 'split': split, **dict(about)}
  save(workdir / 'eval' / stage / split / 'metrics.json', {**SCORES, **scores, **report})
  return workdir


def evaluated_together(folder, members, split='test', **scores):
  """What ``--mode=evaluate --checkpoint=A,B --output=DIR`` writes to DIR."""
  checkpoints = [f'{member}/checkpoints/main/40' for member in members]
  report = {'references': True, 'videos': 5, 'data': {'name': 'mine'}, 'stage': 'main'}
  report |= {'decode': common.base().decode.to_dict(), 'split': split}
  report |= {'ensemble': {'checkpoints': checkpoints, 'weights': None}}
  save(folder / 'metrics.json', {**SCORES, **scores, **report})


def lines(text, start):
  return [line.strip() for line in text.splitlines() if line.strip().startswith(start)]


# ---------------------------------------------------------------- what was published


def test_published_figures_are_whole_and_plausible():
  assert set(PAPERS) == {'temporal_spatial_fusion', 'stats', 'refocus', 'dual_afr', 'global2local'}
  for paper in PAPERS:
    for table in tables.read(paper):
      top = 1 if table.unit == 'fraction' else 100
      assert len({(r.name, r.data, r.split) for r in table.rows}) == len(table.rows)
      for row in table.rows:
        figures = [x for x in row.published.values() if x is not None]
        assert figures
        assert all(0 < x < top for x in figures), row
        assert not (row.config and row.missing)
        assert not row.config or re.fullmatch(r'configs/\w+\.py:(data=\w+,)?variant=.+', row.config)


@pytest.mark.parametrize(
  ('paper', 'number', 'name', 'data', 'figures'),
  [
    ('temporal_spatial_fusion', '1', 'temporal', 'VATEX', (38.4, 26.5, 53.2, 78.5)),
    ('stats', '1', 'STaTS, I3D', 'MSVD', (0.802, 0.526, 0.695, 0.335)),
    ('stats', '2', 'mean + ranked attention', 'MSR-VTT', (0.404, 0.376, 0.592, 0.268)),
    ('refocus', '1', 'VRE', 'MSR-VTT', (43.2, 62.0, 28.0, 48.3)),
    ('refocus', '2', 'MFA', 'MSVD', (52.0, None, 33.5, 72.0)),
    ('dual_afr', '1', 'dualAFR, hard', 'M-VAD', (1.82, 7.12, 8.12)),
    ('global2local', '3', 'G2L', 'MSVD', (53.6, 35.6, 73.5, 97.1)),
  ],
)
def test_figures_as_printed_in_the_papers(paper, number, name, data, figures):
  (table,) = tables.read(paper, number)
  row = next(r for r in table.rows if (r.name, r.data) == (name, data))
  assert tuple(row.published.values()) == figures


# ---------------------------------------------------------------- what was measured


def test_a_run_is_listed_below_the_row_of_its_config(tmp_path, capsys):
  signed = {'signature': 'nrefs:10|videos:3'}
  scored(made(tmp_path / 'a', '/else/where/vatex_fusion.py:temporal'), about=signed)
  scored(made(tmp_path / 'b', 'configs/vatex_fusion.py:variant=spatial', train__epochs=3.0))
  made(tmp_path / 'c', 'configs/vatex_fusion.py:vanilla')
  scored(made(tmp_path / 'd', 'configs/vatex_fusion.py:temporal,runlocal'))
  scored(made(tmp_path / 'e', 'configs/vatex_fusion.py:embedding'))
  scored(made(tmp_path / 'f', 'configs/vatex_fusion.py'))
  (tmp_path / 'notes.txt').touch()
  out = tmp_path / 'rows.json'
  tables.main(
    ['--paper=temporal_spatial_fusion', '--table=1', f'--runs={tmp_path}', f'--json={out}']
  )
  text = capsys.readouterr().out
  block = text[text.index('VATEX, val') : text.index('VATEX, test')].splitlines()
  temporal = next(i for i, line in enumerate(block) if line.split()[0] == 'temporal')
  assert ' '.join(block[temporal + 1].split()) == 'run: a 37.1 25.0 50.0 70.0 mine, 3 videos'
  assert lines(text, 'run: b')[0].endswith('70.0  mine, 3 videos; changed: train.epochs=3.0')
  assert ' '.join(lines(text, 'run: c')[0].split()) == 'run: c - - - - no scores of val yet'
  assert lines(text, 'run: a')[1].endswith('no scores of test yet')
  assert not lines(text, 'run: d')
  assert not lines(text, 'run: e')
  fusion = next(i for i, line in enumerate(block) if 'temporal + spatial, RL' in line)
  assert block[fusion + 1].split()[:2] == ['run:', 'f']
  assert '4 of 6 runs' in text
  rows = json.loads(out.read_text())
  assert rows[1]['measured'][0]['scores']['CIDEr'] == {'value': 70.0, 'deviation': None}
  assert rows[1]['published']['CIDEr'] == 78.5
  assert rows[2]['measured'][0]['changed'] == {'train.epochs': 3.0}
  assert rows[3]['measured'] == []
  assert rows[1]['measured'][0]['signature'] == signed['signature']
  assert rows[2]['measured'][0]['signature'] is None  # scored by an earlier version
  (line,) = lines(text, 'run: a, val:')
  assert line.endswith(signed['signature'])


def test_seeds_give_mean_and_deviation(tmp_path):
  for seed in (0, 1):
    one = tmp_path / 'work' / f'seed_{seed}'
    scored(made(one, 'configs/vatex_fusion.py:vanilla', seed=seed))
  (run,), problems = runs.find(str(tmp_path))
  assert (run.seeds, run.changed, run.scores, problems) == (2, {}, {}, [])
  spread = {'val': {'CIDEr': {'mean': 0.5, 'stdev': 0.0123, 'values': [0.4877, 0.5123]}}}
  save(tmp_path / 'work' / 'seeds.json', {'seeds': [0, 1], 'scores': spread})
  found, _ = runs.find(str(tmp_path / 'work'))
  text = tables.render(tables.read('temporal_spatial_fusion', '1')[0], found)
  assert lines(text, 'run: work')[0].endswith('-  50.0 ± 1.2  mine, 3 videos; 2 seeds')


def test_workdirs_that_cannot_be_read_are_listed(tmp_path, capsys):
  save(tmp_path / 'old' / 'config.json', {'seed': 0})
  save(tmp_path / 'other' / 'config.json', {'source': 'mine/special.py:x'})
  save(tmp_path / 'gone' / 'config.json', {'source': 'configs/vatex_fusion.py:sideways'})
  (tmp_path / 'torn').mkdir()
  (tmp_path / 'torn' / 'config.json').write_text('{"seed":')
  tables.main(['--paper=stats', '--table=1', f'--runs={tmp_path}'])
  text = capsys.readouterr().out
  assert '0 of 4 runs' in text
  reasons = '\n'.join(lines(text, 'left out'))
  for reason in (
    'old: .*config.json',
    'other: .*configs/special.py',
    "gone: .*'sideways'",
    'torn: .*config.json.*JSON',
  ):
    assert re.search(reason, reasons)


def test_why_runs_are_left_out(tmp_path, capsys):
  made(tmp_path / 'short', 'configs/vatex_fusion.py:vanilla,runlocal')
  (tmp_path / 'none').mkdir()
  for folder, why in (('none', 'no workdir'), ('', 'short: .*runlocal')):
    tables.main(['--paper=stats', '--table=1', f'--runs={tmp_path / folder}'])
    (line,) = lines(capsys.readouterr().out, 'left out')
    assert re.search(why, line)


def rows_of(text, start, end):
  """The lines of a rendered table between two of its lines, as words."""
  return [line.split() for line in text[text.index(start) : text.index(end)].splitlines()]


def test_the_branches_of_a_fusion_are_listed_below_their_rows(tmp_path):
  workdir = scored(made(tmp_path / 'all', 'configs/vatex_fusion.py'), CIDEr=0.8)
  for stage, cider in (('temporal', 0.5), ('temporal_rl', 0.6), ('spatial_rl', 0.65)):
    scored(workdir, stage=stage, CIDEr=cider)
  found, problems = runs.find(str(tmp_path))
  assert not problems
  (table,) = tables.read('temporal_spatial_fusion', '1')
  rows = {row.name: tables.measured(row, found) for row in table.rows if row.split == 'val'}
  figures = {
    name: [(run.stage, run.scores['val']['CIDEr'].value) for run in measured]
    for name, measured in rows.items()
  }
  assert figures == {
    'vanilla': [],
    'temporal': [('temporal', 0.5)],
    'spatial': [],  # it was not scored
    'temporal, RL': [('temporal_rl', 0.6)],
    'spatial, RL': [('spatial_rl', 0.65)],
    'temporal + spatial, RL': [('', 0.8)],
  }
  lines = rows_of(tables.render(table, found), 'VATEX, val', 'VATEX, test')
  assert ['run:', 'all,', 'temporal_rl', '37.1', '25.0', '50.0', '60.0', 'mine,'] in [
    line[:8] for line in lines
  ]
  json_rows = tables.as_json([table], found)
  assert [m['stage'] for row in json_rows[:6] for m in row['measured']] == [
    *('temporal', 'temporal_rl', 'spatial_rl', ''),
  ]


def test_table1_of_vatex_holds_every_row(tmp_path):
  workdir = scored(made(tmp_path / 'all', 'configs/vatex_fusion.py:table1'), CIDEr=0.8)
  stages = ('vanilla', 'temporal', 'temporal_rl', 'spatial', 'spatial_rl')
  for stage in stages:
    scored(workdir, stage=stage)
  found, _ = runs.find(str(workdir))
  rows = [row for row in tables.read('temporal_spatial_fusion', '1')[0].rows if row.split == 'val']
  assert [[run.stage for run in tables.measured(row, found)] for row in rows] == [
    *(['vanilla'], ['temporal'], ['spatial'], ['temporal_rl'], ['spatial_rl'], ['']),
  ]


def test_settings_that_flags_changed_are_those_of_the_branch(tmp_path):
  changes = {'stages__spatial__model__variant': 'spatial+', 'train__epochs': 3.0}
  workdir = made(tmp_path / 'all', 'configs/vatex_fusion.py', **changes)
  for stage in ('temporal', 'spatial'):
    scored(workdir, stage=stage)
  found, _ = runs.find(str(tmp_path))
  changed = {run.stage: dict(run.changed) for run in found if run.stage}
  epochs = {'train.epochs': (20.0, 3.0)}
  assert changed['temporal'] == epochs
  assert changed['spatial'] == {**epochs, 'stages.spatial.model.variant': ('spatial', 'spatial+')}


def test_branches_of_several_seeds_have_mean_and_deviation(tmp_path):
  for seed, cider in ((0, 0.5), (1, 0.7)):
    folder = made(tmp_path / 'work' / f'seed_{seed}', 'configs/vatex_fusion.py', seed=seed)
    scored(scored(folder), stage='temporal', CIDEr=cider)
  spread = {'val': {'CIDEr': {'mean': 0.8, 'stdev': 0.1, 'values': [0.7, 0.9]}}}
  save(tmp_path / 'work' / 'seeds.json', {'seeds': [0, 1], 'scores': spread})
  found, _ = runs.find(str(tmp_path))
  (branch,) = (run for run in found if run.stage)
  cider = branch.scores['val']['CIDEr']
  assert (branch.stage, branch.seeds) == ('temporal', 2)
  assert cider.value == pytest.approx(0.6)
  assert cider.deviation == pytest.approx(0.02**0.5)


# ---------------------------------------------------------------- ensembles

SOFT = 'configs/dual_afr.py:data=msvd,variant=soft'


def ensemble_row(name='dualAFR, soft, ensemble of 10', data='MSVD'):
  return next(
    r for t in tables.read('dual_afr') for r in t.rows if (r.name, r.data) == (name, data)
  )


def test_six_rows_are_ensembles_of_ten_models_with_a_command_each(capsys):
  rows = [r for paper in PAPERS for t in tables.read(paper) for r in t.rows if r.models > 1]
  assert [(r.models, r.config) for r in rows] == [
    (10, f'configs/dual_afr.py:data={data},variant={choice}')
    for data in ('msvd', 'mvad', 'msrvtt')
    for choice in ('soft', 'hard')
  ]
  tables.main(['--paper=dual_afr'])
  commands = lines(capsys.readouterr().out, 'python -m vidcap_jax.main')
  members = ','.join(f'RUN/seed_{i}' for i in range(10))
  expected = f'--mode=evaluate --checkpoint={members} --split=test --output=RUN/ensemble/test'
  assert commands == [f'python -m vidcap_jax.main {expected}'] * 6


def test_the_command_of_an_ensemble_has_the_trained_models(tmp_path):
  seeds = [made(tmp_path / 'soft' / f'seed_{i}', SOFT, seed=i) for i in range(9)]
  found, _ = runs.find(str(tmp_path))
  assert 'RUN/seed_9' in tables.ensemble_command(ensemble_row(), found)
  seeds.append(made(tmp_path / 'tenth', SOFT, seed=9))
  made(tmp_path / 'hard', SOFT.replace('soft', 'hard'))
  found, _ = runs.find(str(tmp_path))
  command = tables.ensemble_command(ensemble_row(), found)
  assert f'--checkpoint={",".join(map(str, seeds))} ' in command
  assert command.endswith(f' --output={tmp_path}/soft/ensemble/test')


@pytest.mark.parametrize('place', ['soft10/test', 'soft/ensemble/test', 'soft/seed_0/eval/test'])
def test_an_evaluation_of_an_ensemble_is_found(place, tmp_path):
  members = [made(tmp_path / 'soft' / f'seed_{i}', SOFT, seed=i) for i in range(3)]
  evaluated_together(tmp_path / place, members, CIDEr=0.75)
  found, problems = runs.find(str(tmp_path))
  assert not problems
  (run,) = tables.measured(ensemble_row(), found)
  assert (run.models, run.scores['test']['CIDEr'].value, run.changed) == (3, 0.75, {})
  single = next(
    row for row in tables.read('dual_afr', '1')[0].rows if row.config == SOFT and row.models == 1
  )
  assert [run.models for run in tables.measured(single, found)] == [1]
  assert not any(run.scores for run in tables.measured(single, found))
  text = tables.render(tables.read('dual_afr', '1')[0], found)
  assert lines(text, f'run: {tmp_path / place}')[0].endswith('75.00  mine, 5 videos; 3 models')


def test_ensembles_that_belong_to_no_row(tmp_path):
  soft = made(tmp_path / 'soft', SOFT)
  hard = made(tmp_path / 'hard', SOFT.replace('soft', 'hard'))
  evaluated_together(tmp_path / 'mixed', [soft, hard])
  evaluated_together(tmp_path / 'moved', [soft, tmp_path / 'nowhere'])
  evaluated_together(tmp_path / 'other', [soft, soft], split='val')
  found, problems = runs.find(str(tmp_path))
  reasons = '\n'.join(sorted(problems))
  assert re.search('mixed/metrics.json: .*soft.*hard', reasons)
  assert re.search('moved/metrics.json: .*nowhere/config.json', reasons)
  assert len(problems) == 2
  assert tables.measured(ensemble_row(), found) == []


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--paper=nobody'], "'nobody'.* temporal_spatial_fusion, stats, ref"),
    (['--paper=stats', '--table=9'], "'stats' .*'9'.* 1, 2, 3, 4"),
    (['--paper=stats', '--table=5'], r'5[\s\S]*studies'),
    (['--table=1'], '--table, --runs and --json .* --paper'),
    (['--paper=stats', '--runs=/nowhere'], '--runs=/nowhere: '),
    (
      ['--paper=stats', '--runs=/nowhere', '--json=/dev/null/x'],
      '--json=/dev/null/x: .*/dev/null',
    ),
  ],
)
def test_wrong_commands(arguments, message):
  with pytest.raises(SystemExit, match=f'error: .*{message}'):
    tables.main(arguments)


def test_without_a_paper_all_are_listed(capsys):
  tables.main([])
  assert capsys.readouterr().out == listing.listing(PAPERS) + '\n'


def test_help_says_how_to_train_a_row(capsys):
  with pytest.raises(SystemExit):
    tables.main(['--help'])
  text = capsys.readouterr().out
  assert 'vidcap tables --paper=stats --table=1 --runs=runs' in text
  assert 'python -m vidcap_jax.main --config=CONFIG' in text
