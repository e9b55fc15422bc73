"""The kill benchmark kills a run and finds no difference from an undisturbed one."""

import json

import pytest

from benchmarks import kill


@pytest.mark.parametrize(
  ('seconds', 'changes', 'differences'),
  [
    ({}, {}, []),
    ({}, {'starts': 1}, ['1 starts, and not 2']),
    ({'lost': -1.0, 'stepping': 30.0}, {}, ['a part below 0']),
    ({'stepping': 25.0}, {}, ['add up to 32.00']),
    ({'stepping': 20.0}, {'wall_seconds': 27.0}, ['27.00 s, but it took 34.00 s']),
  ],
)
def test_what_is_wrong_with_a_ledger(seconds, changes, differences, tmp_path, monkeypatch):
  now = [100.0]
  monkeypatch.setattr(kill.time, 'time', lambda: now[0])
  clock = kill.RunClock()
  clock.starts += 1
  now[0] += 34.0
  parts = {'stepping': 26.0, 'lost': 3.0, 'stopped': 4.0} | seconds
  ledger = {'starts': 2, 'wall_seconds': 33.0, 'seconds': parts} | changes
  (tmp_path / 'goodput.json').write_text(json.dumps(ledger))
  found = clock.compare(tmp_path)
  assert len(found) == len(differences)
  for line, text in zip(found, differences):
    assert text in line


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_one_kill(tmp_path, capsys):
  file = tmp_path / 'rows.json'
  assert kill.main(['--kills=1', f'--json={file}']) == 0
  rows = {row['name']: row['value'] for row in json.loads(file.read_text())}
  assert sum(rows[f'killed in {phase}'] for phase in kill.PHASES) == 1
  assert (rows['finished runs'], rows['differences']) == (1, 0)
  assert 'differences' in capsys.readouterr().out
