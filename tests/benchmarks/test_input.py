"""The input benchmark measures all three modes on data that it makes."""

import json

import pytest

from benchmarks import input as input_benchmark


def test_all_modes(tmp_path, capsys):
  sizes = ['--videos=20', '--frames=3', '--channels=16', '--batch_size=8', '--steps=4']
  file = tmp_path / 'rows.json'
  input_benchmark.main([*sizes, '--step_ms=5', f'--json={file}'])
  rows = {row['name']: row['value'] for row in json.loads(file.read_text())}
  assert rows['records to be read at 10x'] == 10 * 8 / 0.005
  for mode in ('none', 'host', 'device'):
    assert rows[f'{mode}: records read'] > 0
    assert 0 <= rows[f'{mode}: input wait'] < 1
  words = 8 * (21 + 1 + 1 + 1 + 1) * 4  # captions, their index, the videos', category, key frame
  of_one = 3 * (16 * 2 + 1)  # features and masks
  a_second = 10 / 0.005 / 1e6
  assert abs(rows['device: from the host at 10x'] - words * a_second) < 1e-9
  assert abs(rows['none: from the host at 10x'] - (words + 8 * of_one) * a_second) < 1e-9
  assert 'input wait' in capsys.readouterr().out


def test_data_without_a_training_split(tmp_path, capsys):
  assert input_benchmark.main([f'--data={tmp_path}']) == 1
  assert 'error: ' in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told_before_anything_is_measured(tmp_path, capsys):
  with pytest.raises(SystemExit) as ended:
    input_benchmark.main([f'--json={tmp_path / "none" / "rows.json"}'])
  assert ended.value.code == 2
  assert 'rows.json: cannot write to ' in capsys.readouterr().err
