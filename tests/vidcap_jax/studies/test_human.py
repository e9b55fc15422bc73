"""The commands that draw sheets for raters and score them."""

import csv
import json

import pytest

from tests import video_files
from tests.vidcap_jax.studies.test_run_captions import evaluated
from vidcap_jax.studies import human

IDS = [f'v{i}' for i in range(6)]


@pytest.fixture
def runs(tmp_path):
  captions = {name: {i: f'{name} {i}' for i in IDS} for name in ('pool4', 'soft')}
  paths = [evaluated(tmp_path / name, captions=texts) for name, texts in captions.items()]
  return f'{paths[0]},dualAFR={paths[1]}'


def test_from_runs_to_scores(runs, tmp_path, capsys):
  pytest.importorskip('matplotlib')
  out = tmp_path / 'study'
  human.main(['draw', f'--runs={runs}', '--videos=4', '--raters=3', f'--output={out}'])
  names = [f'rater_0{i}.{suffix}' for i in (1, 2, 3) for suffix in ('csv', 'html')]
  assert sorted(path.name for path in (out / 'sheets').iterdir()) == names
  for path in sorted((out / 'sheets').glob('*.csv'))[:2]:
    with path.open(newline='') as file:
      rows = list(csv.DictReader(file))
    for row in rows:
      row['relevance'] = 'A' if row['caption_A'].startswith('soft') else 'B'
      row['coherence'] = 'neither'
    with path.open('w', newline='') as file:
      writer = csv.DictWriter(file, list(rows[0]))
      writer.writeheader()
      writer.writerows(rows)
  arguments = [f'--key={out}/key.json', f'--sheets={out}/sheets']
  capsys.readouterr()
  human.main(
    ['score', *arguments, f'--json={tmp_path}/scores.json', f'--plot={tmp_path}/scores.png']
  )
  result = json.loads((tmp_path / 'scores.json').read_text())
  assert (result['videos'], result['raters'], result['sheets_drawn']) == (4, 2, 3)
  means = {
    criterion: {label: run['mean'] for label, run in entry['runs'].items()}
    for criterion, entry in result['criteria'].items()
  }
  assert means == {
    'relevance': {'pool4': 0.0, 'dualAFR': 1.0, 'neither': 0.0},
    'coherence': {'pool4': 0.0, 'dualAFR': 0.0, 'neither': 1.0},
  }
  assert result['criteria']['relevance']['agreement'] == 1.0
  assert '8 answers' in capsys.readouterr().out
  assert (tmp_path / 'scores.png').read_bytes().startswith(b'\x89PNG')


def test_videos_are_copied_or_shown_as_pictures(runs, tmp_path):
  pytest.importorskip('av')
  videos = tmp_path / 'videos'
  videos.mkdir()
  for video_id in IDS:
    suffix = 'mp4' if video_id < 'v3' else 'avi'
    video_files.write_video(videos / f'{video_id}.{suffix}', video_files.ramp(12))
  out = tmp_path / 'study'
  arguments = ['draw', f'--runs={runs}', '--videos=6', '--raters=1', f'--media={videos}']
  human.main([*arguments, f'--output={out}'])
  copies = sorted(path.name for path in (out / 'sheets' / 'media').iterdir())
  assert copies == ['v0.mp4', 'v1.mp4', 'v2.mp4']
  page = (out / 'sheets' / 'rater_01.html').read_text()
  assert page.count('<video ') == 3
  assert page.count('<img src="data:image/jpeg') == 3 * human._STILLS
  (videos / 'v0.mp4').unlink()
  with pytest.raises(SystemExit, match='--media=.* 1 of the 6 .*v0'):
    human.main([*arguments, f'--output={tmp_path}/other'])


def test_wrong_commands(runs, tmp_path):
  draw = ['draw', f'--runs={runs}', '--videos=4', f'--output={tmp_path}/study']
  for arguments, message in (
    (['--criteria=how good'], '--criteria=how good'),
    (['--points=1', '--task=rate'], '--points=1'),
    (['--videos=7'], '--videos=7: .*6'),
    (['--media=/nowhere'], '--media=/nowhere'),
  ):
    with pytest.raises(SystemExit, match=f'error: {message}'):
      human.main([*draw, *arguments])
  assert not (tmp_path / 'study').exists()
  human.main(draw)
  with pytest.raises(SystemExit, match='error: --output=.*study'):
    human.main(draw)
  score = ['score', f'--key={tmp_path}/study/key.json', f'--sheets={tmp_path}/study/sheets']
  with pytest.raises(SystemExit, match='error: --sheets=.*25 sheets'):
    human.main(score)
