"""The cost of a table's rows: which they are, their ratios, and rows that fail."""

import json
import stat
import sys

import pytest

from tests.vidcap_jax.studies.test_cost_row import CONFIG
from vidcap_jax.errors import UserError
from vidcap_jax.studies import cost
from vidcap_jax.studies.cost_row import Settings


def program(seconds, memory):
  return {'batch': 2, 'median': seconds, 'memory': {'total': memory}}


ROWS = [
  {'name': 'pool4', 'train': program(2.0, 2**30), 'inference': program(1.0, 2**29)},
  {'name': 'soft', 'train': program(5.0, 2**31), 'inference': program(1.25, 2**30)},
  {
    'name': 'large',
    'train': {'memory': {'total': 2**40}, 'problem': 'needs 1024.0 GiB'},
    'inference': program(4.0, 2**30),
  },
  {'name': 'broken', 'problem': 'no such stream'},
]


def test_ratios_are_those_to_the_first_row():
  rows = cost.with_ratios(ROWS)
  assert (
    rows[0]['train']['ratio']
    == rows[0]['inference']['ratio']
    == {
      'seconds': 1.0,
      'memory': 1.0,
    }
  )
  assert rows[1]['train']['ratio'] == {'seconds': 2.5, 'memory': 2.0}
  assert rows[1]['inference']['ratio'] == {'seconds': 1.25, 'memory': 2.0}
  assert rows[2]['train']['ratio'] == {'seconds': None, 'memory': 1024.0}
  assert 'train' not in rows[3]
  assert 'ratio' not in ROWS[0]['train']


def test_the_table_names_what_did_not_fit():
  header, first, second, third, last = cost.table(cost.with_ratios(ROWS)).splitlines()
  assert second.split() == [
    *('soft', '5.0000', '2.50', '2.000', '2.00', '1.2500', '1.25', '1.000', '2.00'),
  ]
  assert third.endswith('train: needs 1024.0 GiB')
  assert last.split()[:2] == ['broken', '-']
  assert last.endswith('no such stream')
  assert [header.split()[0], first.split()[0]] == ['row', 'pool4']


def test_rows_of_a_table_are_its_configs():
  rows = cost.rows_of_table('dual_afr', '1', 'MSVD')
  assert [row.name for row in rows][:2] == ['ResNet + LSTM', 'C3D fc7 + LSTM']
  assert len(rows) == 12  # without methods of other papers and ensembles
  both = cost.rows_of_table('dual_afr', '1', None)
  assert (len(both), both[0].name) == (24, 'ResNet + LSTM, MSVD')
  assert len({row.config for row in both}) == 24
  vatex = cost.rows_of_table('temporal_spatial_fusion', '1', None)
  assert [row.name for row in vatex].count('temporal') == 1  # its two splits are one config
  with pytest.raises(UserError, match='--data=VATEX: .*MSVD, M-VAD'):
    cost.rows_of_table('dual_afr', '1', 'VATEX')
  with pytest.raises(UserError, match='3 of dual_afr'):
    cost.rows_of_table('dual_afr', '3', None)


@pytest.fixture
def child(tmp_path, monkeypatch):
  """Replaces the process of a row by one that runs ``action``."""

  def install(action):
    path = tmp_path / 'python'
    path.write_text(f'#!{sys.executable}\n{action}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, 'executable', str(path))

  return install


@pytest.mark.parametrize(
  ('action', 'problem'),
  [
    ('import os; os.kill(os.getpid(), 9)', 'does not fit'),
    ('import sys; sys.exit("jax: RESOURCE_EXHAUSTED: 9 GiB\\n...")', 'does not fit'),
    ('import sys; sys.exit("a warning\\nerror: no stream \'x\'")', "no stream 'x'"),
    ('raise KeyError("size")', "KeyError: 'size'"),
    ('import sys; sys.exit(3)', 'exit status 3'),
    ('import time; time.sleep(60)', 'within 2 s'),
  ],
)
def test_a_row_that_fails_says_why(action, problem, child):
  child(action)
  found = cost.measure_row(Settings('x'), 2.0)
  assert list(found) == ['problem']
  assert problem in found['problem']


def test_a_wrong_config_is_found_before_the_first_row_is_measured(tmp_path, monkeypatch):
  path = tmp_path / 'small.py'
  path.write_text(CONFIG)
  monkeypatch.setattr(cost, 'measure_row', lambda *_: pytest.fail('measured'))
  for wrong in (f'{path}:variant=sideways', f'{tmp_path}/nowhere.py'):
    with pytest.raises(SystemExit, match=f'error: .*{wrong.rpartition("=")[2]}'):
      cost.main([f'--config={path}', f'--config={wrong}'])


def test_the_exit_code_if_all_rows_fail(tmp_path, monkeypatch):
  path = tmp_path / 'small.py'
  path.write_text(CONFIG)
  results = iter([{'problem': 'a'}, {'train': {}}, {'problem': 'a'}, {'problem': 'b'}])
  monkeypatch.setattr(cost, 'measure_row', lambda *_: next(results))
  cost.main([f'--config={path}'] * 2)
  with pytest.raises(SystemExit) as ended:
    cost.main([f'--config={path}'] * 2)
  assert ended.value.code == 1


def test_the_command(tmp_path, capsys, monkeypatch):
  pytest.importorskip('matplotlib')
  path = tmp_path / 'small.py'
  path.write_text(CONFIG)
  arguments = [f'--config={path}:variant=vanilla'] * 2
  measure_row, results = cost.measure_row, iter([None, {'problem': 'sideways'}])
  monkeypatch.setattr(cost, 'measure_row', lambda *a: next(results) or measure_row(*a))
  outputs = [f'--json={tmp_path}/x.json', f'--plot={tmp_path}/x.png']
  cost.main([*arguments, '--batch=2', '--repeats=1', *outputs])
  first, second = json.loads((tmp_path / 'x.json').read_text())
  assert first['train']['ratio'] == {'seconds': 1.0, 'memory': 1.0}
  assert first['train']['batch'] == first['inference']['batch'] == 2
  assert 'sideways' in second['problem']
  assert len(capsys.readouterr().out.splitlines()) == 3
  assert (tmp_path / 'x.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    ([], '--config.* --paper'),
    (['--config=x', '--paper=stats', '--table=1'], '--config.* --paper'),
    (['--paper=stats'], '--table'),
    (['--config=x', '--repeats=0'], '--repeats=0'),
    (['--config=x', '--json=/dev/null/x'], '--json=/dev/null/x'),
  ],
)
def test_wrong_commands(arguments, message):
  with pytest.raises(SystemExit, match=f'error: .*{message}'):
    cost.main(arguments)
