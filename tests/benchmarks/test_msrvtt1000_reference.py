"""The baselines that need no captioner, on four videos."""

import json

import numpy as np
import pytest

from benchmarks import msrvtt1000_reference as reference


@pytest.fixture
def arguments(tmp_path):
  captions = {
    'video0': ['people', 'a man sings', 'a man sings now'],
    'video1': ['an animal', 'a dog runs', 'a dog runs far'],
    'video2': ['a man sings', 'someone sings a song'],
    'video3': ['a dog runs', 'the dog plays in the snow'],
  }
  features = tmp_path / 'features'
  features.mkdir()
  for i, video_id in enumerate(captions):
    np.save(features / f'{video_id}.npy', np.full((5, 2), [i % 2, 1.0]))
  sentences = [{'video_id': v, 'caption': c} for v, cs in captions.items() for c in cs]
  (tmp_path / 'a.json').write_text(json.dumps({'videos': [], 'sentences': sentences}))
  splits = {'train': ['video0', 'video1'], 'val': ['video2', 'video3']}
  (tmp_path / 's.json').write_text(json.dumps(splits))
  files = [f'--annotations={tmp_path}/a.json', f'--splits={tmp_path}/s.json']
  return [*files, f'--features={features}', f'--json={tmp_path}/out']


def test_prints_and_writes_the_table(arguments, tmp_path, capsys):
  reference.main(arguments)
  rows = {row['name']: row['value'] for row in json.loads((tmp_path / 'out').read_text())}
  assert len(rows) == 9
  # Each video has a neighbour of its kind, whose caption beats a constant one.
  constant = max(v for name, v in rows.items() if 'constant' in name and 'CIDEr' in name)
  assert rows['nearest CIDEr'] > 1.5 * constant
  assert f'{rows["nearest CIDEr"]:9.4f}' in capsys.readouterr().out


def test_a_missing_feature_file_is_named(arguments, tmp_path):
  (tmp_path / 'features' / 'video1.npy').unlink()
  with pytest.raises(SystemExit, match=r'1 of 2 .*video1\.npy'):
    reference.main(arguments)
