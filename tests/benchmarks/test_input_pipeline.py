"""The input benchmark measures all three modes on random data."""

import json

import pytest

from benchmarks import input_pipeline


def test_all_modes(tmp_path, capsys):
  sizes = ['--videos=20', '--frames=3', '--channels=16', '--batch_size=8', '--steps=4']
  file = tmp_path / 'rows.json'
  input_pipeline.main([*sizes, '--step_ms=5', f'--json={file}'])
  rows = {row['name']: row['value'] for row in json.loads(file.read_text())}
  assert rows['records needed at 10x'] == 10 * 8 / 0.005
  for mode in ('none', 'host', 'device'):
    assert rows[f'{mode}: records read'] > 0
    assert 0 <= rows[f'{mode}: input wait'] < 1
  words = 8 * (21 + 1 + 1 + 1 + 1) * 4  # captions, their index, the videos', category, key frame
  features = 3 * (16 * 2 + 1)  # and masks
  batches_per_second = 10 / 0.005
  assert abs(rows['device: from the host at 10x'] - words * batches_per_second / 1e6) < 1e-9
  assert (
    abs(rows['none: from the host at 10x'] - (words + 8 * features) * batches_per_second / 1e6)
    < 1e-9
  )
  assert 'input wait' in capsys.readouterr().out


def test_data_without_a_training_split(tmp_path):
  with pytest.raises(SystemExit, match=f'error: .*{tmp_path}'):
    input_pipeline.main([f'--data={tmp_path}'])


def test_the_output_path_is_checked_first(tmp_path, capsys):
  with pytest.raises(SystemExit) as ended:
    input_pipeline.main([f'--json={tmp_path / "none" / "rows.json"}'])
  assert ended.value.code == 2
  assert 'rows.json' in capsys.readouterr().err
