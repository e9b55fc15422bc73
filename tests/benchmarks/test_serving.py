"""The load generator, and one small measurement of a server."""

import json

import numpy as np
import pytest

from benchmarks import serving
from benchmarks.http_load import Answer
from vidcap_jax.errors import UserError


def test_quantiles_are_times_that_were_measured():
  times = [0.4, 0.1, 0.3, 0.2]
  assert serving.quantile(times, 0.5) == 0.2
  assert serving.quantile(times, 0.95) == serving.quantile(times, 1.0) == 0.4
  assert serving.quantile([0.7], 0.5) == 0.7


def test_rows_of_a_load():
  answers = [Answer('a', 0.1 * i, [], i == 3) for i in range(1, 5)]
  rows = {row.name: row for row in serving.load_rows('clips', 4, answers, 2.0)}
  assert {name.removeprefix('clips, 4 clients: '): row.value for name, row in rows.items()} == {
    'throughput': 2.0,
    'p50': 200.0,
    'p95': 400.0,
    'answers with status 429': 1,
  }
  with pytest.raises(UserError, match='--seconds'):
    serving.load_rows('clips', 1, [], 1.0)


def test_features_have_the_shapes_that_the_server_names():
  streams = [{'name': 'image', 'shape': [None, 5]}, {'name': 'scene', 'shape': [3]}]
  videos = serving.draw_features(streams)
  assert {name: array.shape for name, array in videos[0].items()} == {
    'image': (serving.STEPS, 5),
    'scene': (3,),
  }
  upload = serving.feature_uploads(videos)[1]
  assert upload.name == '1'
  assert [field for field, _, _ in upload.files] == ['features.image', 'features.scene']
  assert not np.array_equal(videos[0]['image'], videos[1]['image'])


def test_clips_are_rendered_or_given(tmp_path):
  rendered = serving.clip_uploads(tmp_path, [])
  assert len({contents for upload in rendered for _, _, contents in upload.files}) == serving.CLIPS
  path = str(min(tmp_path.glob('*.mp4')))
  [given] = serving.clip_uploads(tmp_path / 'other', [path])
  assert given.files == rendered[0].files


@pytest.mark.parametrize(
  'flags',
  [
    [],
    ['--url=http://127.0.0.1:1', '--memory'],
    ['--checkpoint=a', '--clients=0'],
    ['--checkpoint=a', '--requests=0'],
    ['--checkpoint=a', '--clips', 'none.mp4'],
  ],
)
def test_flags_that_do_not_fit(flags, capsys):
  with pytest.raises(SystemExit) as ended:
    serving.main(flags)
  assert ended.value.code == 2
  assert '--' in capsys.readouterr().err


@pytest.mark.slow
def test_a_server_under_load(workspace, tmp_path):
  file = tmp_path / 'rows.json'
  checkpoint = f'--checkpoint={workspace / "runs" / "mine"}'
  code = serving.main([checkpoint, '--clients=1,4', '--requests=24', f'--json={file}'])
  rows = {row['name']: row for row in json.loads(file.read_text())}
  assert code == 0
  for kind in ('clips', 'features'):
    assert rows[f'{kind}, 4 clients: p95']['value'] >= rows[f'{kind}, 4 clients: p50']['value'] > 0
  assert rows['captions compared with vidcap_jax.load']['value'] == 4 * 24
  assert rows['captions that differ']['met']


@pytest.mark.slow
def test_memory_of_a_server(workspace, tmp_path, monkeypatch):
  monkeypatch.setattr(serving, 'EARLY', 50)
  file = tmp_path / 'rows.json'
  checkpoint = f'--checkpoint={workspace / "runs" / "mine"}'
  serving.main([checkpoint, '--clients=2', '--memory=100', f'--json={file}'])
  rows = {row['name']: row for row in json.loads(file.read_text())}
  assert rows['requests']['value'] == 100
  assert rows['memory at the end']['value'] > 50  # MiB
  assert rows['memory at the end']['ratio'] < 1.5
