"""The page of captions side by side: what it shows, escapes, chooses and refuses."""

import html
import json

import pytest

from vidcap_jax.studies import examples

NASTY = "\"><script>alert('x')</script>"
CAPTIONS = {
  'one': {'v0': 'a man sings', f'v1{NASTY}': NASTY, 'v2': 'a dog'},
  'two': {'v0': 'a man sings', f'v1{NASTY}': "it's a song", 'v2': 'a cat'},
}


@pytest.fixture
def runs(tmp_path):
  names = []
  for label, captions in CAPTIONS.items():
    file = tmp_path / f'{label}.json'
    rows = [{'video_id': i, 'caption': caption} for i, caption in captions.items()]
    file.write_text(json.dumps(rows))
    names.append(f'{label}={file}')
  return ','.join(names)


def call(runs, output, *more):
  examples.main([f'--runs={runs}', f'--output={output}', *more])
  return (output / 'index.html').read_text(), json.loads((output / 'examples.json').read_text())


def test_captions_that_differ_are_shown_and_escaped(runs, tmp_path, capsys):
  page, data = call(runs, tmp_path / 'out')
  assert [video['video_id'] for video in data['videos']] == [f'v1{NASTY}', 'v2']
  assert data['videos'][0]['captions'] == {'one': NASTY, 'two': "it's a song"}
  assert '<script' not in page
  assert page.count(html.escape(NASTY)) == 2  # id and caption
  assert html.escape("it's a song") in page
  assert 'a man sings' not in page
  assert 'references' in capsys.readouterr().err  # there are none
  assert 'http://' not in page
  assert 'https://' not in page


def test_given_videos_and_references(runs, tmp_path):
  references = tmp_path / 'references.json'
  every = {i: [f'reference {n} of {i}' for n in range(5)] for i in CAPTIONS['one']}
  references.write_text(json.dumps(every))
  page, data = call(
    runs, tmp_path / 'out', '--ids=v2,v0', f'--references={references}', '--references_shown=2'
  )
  assert [video['video_id'] for video in data['videos']] == ['v2', 'v0']
  assert data['videos'][0]['references'] == every['v2']
  assert 'reference 1 of v2' in page
  assert 'reference 2 of v2' not in page
  assert page.index('a dog') < page.index('a cat') < page.index('a man sings')


def test_the_number_of_videos(runs, tmp_path):
  _, data = call(runs, tmp_path / 'out', '--count=1')
  assert len(data['videos']) == 1


def test_ids_with_commas_and_empty_captions(tmp_path):
  file = tmp_path / 'one.json'
  file.write_text(json.dumps([{'video_id': i, 'caption': ''} for i in ('a,b', 'c')]))
  page, data = call(f'x={file}', tmp_path / 'out', '--ids=a,b')
  assert [video['video_id'] for video in data['videos']] == ['a,b']
  assert '<dd>(empty)</dd>' in page


def test_pictures(runs, tmp_path, capsys):
  from tests.video_files import ramp, write_video

  (tmp_path / 'videos').mkdir()
  write_video(tmp_path / 'videos' / 'v0.mp4', ramp(12))
  (tmp_path / 'videos' / 'v2.mp4').write_text('no video')
  page, _ = call(runs, tmp_path / 'out', '--ids=v0,v2', f'--videos={tmp_path}/videos')
  assert page.count('data:image/jpeg') == examples.FRAMES
  assert 'v2.mp4' in capsys.readouterr().err


@pytest.mark.parametrize(
  ('arguments', 'named'),
  [
    (['--ids=v9'], 'one.json.*v9'),
    (['--count=0'], '--count=0'),
    (['--videos=/nowhere'], '--videos=/nowhere'),
    (['--references=/nowhere.json'], 'nowhere.json'),
  ],
)
def test_what_is_refused(runs, tmp_path, arguments, named):
  with pytest.raises(SystemExit, match=f'error: .*{named}'):
    call(runs, tmp_path / 'out', *arguments)
  assert not (tmp_path / 'out').exists()


def test_runs_with_equal_captions(runs, tmp_path):
  one = runs.split(',')[0].partition('=')[2]
  with pytest.raises(SystemExit, match='--ids'):
    call(f'a={one},b={one}', tmp_path / 'out')


def test_captions_by_id_in_a_markdown_page(runs, tmp_path, capsys):
  references = tmp_path / 'references.json'
  references.write_text(json.dumps({i: ['one | two', 'three', 'four'] for i in CAPTIONS['one']}))
  page = tmp_path / 'page.md'
  more = [f'--references={references}', '--references_shown=2', '--ids=v2,v0']
  examples.main([f'--runs={runs}', f'--markdown={page}', *more])
  head, _, *rows = [line for line in page.read_text().splitlines() if line.startswith('|')]
  assert [cell.strip() for cell in head.strip('|').split('|')] == [
    'video',
    'one',
    'two',
    'references',
  ]
  assert [row.split(' | ')[0] for row in rows] == ['| v2   ', '| v0   ']
  assert r'one \| two; three |' in rows[0]
  assert capsys.readouterr().out.strip() == str(page)

  examples.main([f'--runs={runs}', f'--markdown={page}', *more, '--references_shown=0'])
  assert 'references' not in page.read_text()
  assert 'three' not in page.read_text()
  with pytest.raises(SystemExit, match='--references_shown=-1'):
    examples.main([f'--runs={runs}', f'--markdown={page}', '--references_shown=-1'])
  with pytest.raises(SystemExit, match='--output=.*--markdown='):
    examples.main([f'--runs={runs}'])
