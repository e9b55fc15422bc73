"""The published tables, and runs listed in them."""

import importlib
import json
import pathlib
import re

import pytest

from configs import common
from vidcap_jax.config_diff import as_saved
from vidcap_jax.studies import runs, tables

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


def scored(workdir, split='val', decode=None, **scores):
  decode = {**common.base().decode.to_dict(), **(decode or {})}
  about = {'references': True, 'videos': 3, 'checkpoint_step': 4, 'data': {'name': 'mine'}}
  about |= {'stage': 'temporal', 'decode': decode}
  save(workdir / 'eval' / split / 'metrics.json', {**SCORES, **scores, **about})
  return workdir


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
  scored(made(tmp_path / 'a', '/else/where/vatex_fusion.py:temporal'))
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
    'torn: JSONDecodeError',
  ):
    assert re.search(reason, reasons)


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (['--paper=nobody'], "'nobody'.* temporal_spatial_fusion, stats, ref"),
    (['--paper=stats', '--table=9'], "'stats' .*'9'.* 1, 2, 3, 4"),
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
  text = capsys.readouterr().out
  for paper, about in PAPERS.items():
    assert f'--paper={paper}  {about["title"]}' in text
  assert text.count('--table=') == sum(len(p['tables']) for p in PAPERS.values())


def test_help_says_how_to_train_a_row(capsys):
  with pytest.raises(SystemExit):
    tables.main(['--help'])
  text = capsys.readouterr().out
  assert 'python -m vidcap_jax.studies.tables --paper=stats --table=1 --runs=runs' in text
  assert 'python -m vidcap_jax.main --config=CONFIG' in text
