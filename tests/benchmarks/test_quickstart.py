"""The goals of the quickstart, on made-up results."""

import json

import pytest

from benchmarks import quickstart
from data_prep.synthetic import clips
from vidcap_jax.errors import UserError

RED = {'colour': 'red', 'shape': 'circle', 'action': 'spins', 'direction': 'left'}
BLUE = {**RED, 'colour': 'blue', 'direction': 'up'}


@pytest.fixture
def workdir(tmp_path, monkeypatch):
  results = tmp_path / 'eval' / 'test'
  results.mkdir(parents=True)
  scores = {'CIDEr': 1.2, 'constant_CIDEr': 0.5, 'data': {'dir': 'DATA'}}
  captions = [
    {'video_id': 'a', 'caption': 'a red circle spins to the left'},
    {'video_id': 'b', 'caption': 'a red circle spins to the left'},
  ]
  (results / 'metrics.json').write_text(json.dumps(scores))
  (results / 'captions.json').write_text(json.dumps(captions))
  monkeypatch.setattr(clips, 'read_facts', {'DATA': {'a': RED, 'b': BLUE}}.get)
  monkeypatch.setattr(quickstart.swapped_features, 'measure', lambda *_: [])
  return tmp_path


def test_shares_of_attributes_and_ratio_to_the_constant_caption(workdir):
  rows = {row.name: row for row in quickstart.measure(str(workdir))}
  assert rows['CIDEr'].ratio == pytest.approx(2.4)
  assert not rows['CIDEr'].met
  shares = {name: row.value for name, row in rows.items() if name != 'CIDEr'}
  assert shares == {'colour': 0.5, 'shape': 1.0, 'action': 1.0, 'direction': 0.5}
  assert [row.met for row in rows.values()] == [False, False, True, True, False]


def test_a_workdir_without_results(tmp_path):
  with pytest.raises(UserError, match='quickstart.py'):
    quickstart.measure(str(tmp_path))
  with pytest.raises(SystemExit, match=f'error: {tmp_path}'):
    quickstart.main([f'--workdir={tmp_path}'])
