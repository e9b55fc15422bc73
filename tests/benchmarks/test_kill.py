"""The kill benchmark kills a run and finds no difference from an undisturbed one."""

import json

import pytest

from benchmarks import kill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_one_kill(tmp_path, capsys):
  file = tmp_path / 'rows.json'
  assert kill.main(['--kills=1', f'--json={file}']) == 0
  rows = {row['name']: row['value'] for row in json.loads(file.read_text())}
  assert sum(rows[f'killed in {phase}'] for phase in kill.PHASES) == 1
  assert (rows['finished runs'], rows['differences']) == (1, 0)
  assert 'differences' in capsys.readouterr().out
