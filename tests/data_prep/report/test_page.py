"""The HTML page of data_prep.inspect."""

import html
import re

import numpy as np
import pytest

from data_prep.dataset.builder import Options, build
from data_prep.inspect import main
from tests.html_pages import Page

av = pytest.importorskip('av')

NASTY = '<script>alert(1)</script> & "quoted" \'it\' <img src=x onerror=y>'


def write_video(path, frames=6, size=(64, 48)):
  with av.open(str(path), 'w') as container:
    stream = container.add_stream('mpeg4', rate=5)
    stream.width, stream.height, stream.pix_fmt = *size, 'yuv420p'
    for i in range(frames):
      image = np.full((size[1], size[0], 3), 40 * i, np.uint8)
      container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
    container.mux(stream.encode(None))


@pytest.fixture
def folder(tmp_path):
  rng = np.random.default_rng(0)
  (tmp_path / 'image').mkdir()
  (tmp_path / 'videos' / 'deep').mkdir(parents=True)
  rows = ['id,caption,split']
  for i in range(10):
    array = np.ones((4, 3)) if i == 1 else rng.normal(size=(300 if i == 2 else 4 + i % 2, 3))
    np.save(tmp_path / 'image' / f'v{i}.npy', array)
    rows.append(f'v{i},a dog runs {"very " * (i % 4)}fast,{"val" if i > 6 else "train"}')
  quoted = NASTY.replace('"', '""')
  rows.append(f'v0,"{quoted}",train')
  (tmp_path / 'a.csv').write_text('\n'.join(rows))
  write_video(tmp_path / 'videos' / 'v0.mp4')
  write_video(tmp_path / 'videos' / 'deep' / 'v8.avi')
  (tmp_path / 'videos' / 'v1.mp4').write_bytes(b'')
  (tmp_path / 'videos' / 'v2.mp4').write_bytes(b'no video at all' * 50)
  (tmp_path / 'videos' / 'v3.txt').write_text('not a video')
  build(
    Options(
      'csv',
      (str(tmp_path / 'a.csv'),),
      {'image': str(tmp_path / 'image')},
      str(tmp_path / 'data'),
      min_count=1,
    )
  )
  return tmp_path / 'data'


def test_the_page_shows_what_is_printed(folder, capsys):
  assert main([str(folder)]) == 0
  printed = [' '.join(line.split()) for line in capsys.readouterr().out.splitlines()]
  page = (folder / 'inspect.html').read_text()
  seen = ' '.join(' '.join(Page(page).texts).split())
  for start, end in (('Odd', 'Broken'), ('Splits', 'Streams'), ('Coverage', 'Vocabulary')):
    lines = printed[printed.index(start) + 1 : printed.index(end)]
    assert lines
    assert all(line in seen for line in lines)
  assert 'v1' in seen[seen.index('values are all equal') :]
  assert 'unusually long in frames: v2 (300)' in seen
  assert 'Broken: nothing' in seen


def test_page_runs_and_loads_nothing(folder):
  assert main([str(folder)]) == 0
  page = (folder / 'inspect.html').read_text()
  text = Page(page)
  assert NASTY in html.unescape(page)
  assert any(NASTY in words for words in text.texts)
  assert '<script' not in page
  assert not {tag for tag, _ in text.tags} & {'script', 'iframe', 'object', 'link', 'a'}
  assert not [attrs for _, attrs in text.tags if any(name.startswith('on') for name in attrs)]
  assert not re.findall(r'(?:src|href)="(?!data:image/jpeg)', page)


def test_histograms_of_all_splits_and_streams(folder):
  assert main([str(folder)]) == 0
  labels = [
    a['aria-label']
    for tag, a in Page((folder / 'inspect.html').read_text()).tags
    if 'aria-label' in a
  ]
  assert labels == [
    'Caption lengths, train',
    'Caption lengths, val',
    'Captions of a video, train',
    'Captions of a video, val',
    'Frames per video of image, train',
    'Frames per video of image, val',
    'Most frequent words',
    'Number of words by how often they occur',
  ]


def test_thumbnails_and_what_cannot_be_decoded(folder, capsys):
  videos = folder.parent / 'videos'
  assert main([str(folder), f'--videos={videos}', '--html', str(folder.parent / 'p.html')]) == 0
  out = capsys.readouterr().out
  page = (folder.parent / 'p.html').read_text()
  assert not (folder / 'inspect.html').exists()
  images = [a['src'] for tag, a in Page(page).tags if tag == 'img']
  assert len(images) == 6  # v0 and v8, three each
  assert all(uri.startswith('data:image/jpeg;base64,') for uri in images)
  for note in (
    f'v1: {videos / "v1.mp4"}: the file is empty',
    f'v2: {videos / "v2.mp4"}: not a video',
  ):
    assert note in out
    assert html.escape(note) in page
  assert f'6 of the 10 videos shown have no file in {videos}: v3, v4, v5, v6, v7 and 1 more' in out


def test_no_such_folder_of_videos(folder, capsys):
  assert main([str(folder), '--videos=/nowhere']) == 1
  assert '--videos=/nowhere: no such folder' in capsys.readouterr().err


def test_where_the_page_goes(folder, capsys):
  assert main([str(folder), '--html=']) == 0
  assert not (folder / 'inspect.html').exists()
  assert main([str(folder), '--html', str(folder / 'no' / 'p.html')]) == 1
  assert 'No such file or directory; see --html' in capsys.readouterr().err


def test_a_rebuilt_data_set_has_no_old_page(folder):
  assert main([str(folder)]) == 0
  inputs = (str(folder.parent / 'a.csv'),), {'image': str(folder.parent / 'image')}
  build(Options('csv', *inputs, str(folder), min_count=2, overwrite=True))
  assert not (folder / 'inspect.html').exists()


def test_broken_shards_come_first(folder, capsys):
  shard = next(folder.glob('*-val.array_record*'))
  shard.write_bytes(shard.read_bytes()[:70_000])
  assert main([str(folder)]) == 1
  message = capsys.readouterr().out.splitlines()[-1].strip()
  assert message.startswith(f'val: {shard}: truncated')
  page = (folder / 'inspect.html').read_text()
  assert f'<section class="broken"><h2>Broken</h2><ul><li>{html.escape(message)}</li>' in page
  assert page.index(html.escape(message)) < page.index('<h2>Splits</h2>')
  assert 'train, evenly spaced samples' in page
