"""The attention command: its files, what it escapes, and what it refuses."""

import argparse
import json
import types

import numpy as np
import pytest

from tests import tiny
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.errors import DataError
from vidcap_jax.studies import attention, videos


def call(tiny_run, output, *more):
  attention.main(['--checkpoint', str(tiny_run), '--split=val', '--output', str(output), *more])


@pytest.fixture(scope='module')
def output(tiny_run, tmp_path_factory):
  folder = tmp_path_factory.mktemp('out')
  call(tiny_run, folder, '--ids=v8,v7')
  return folder


def test_files(output):
  entries = json.loads((output / 'attention.json').read_text())['videos']
  assert [entry['video_id'] for entry in entries] == ['v8', 'v7']
  for entry in entries:
    described = entry['attentions']['temporal']
    arrays = np.load(output / entry['weights'])
    assert described['axes'] == ['caption', 'frames']
    assert arrays['temporal'].shape == tuple(described['shape'])
    assert arrays['caption'].tolist() == entry['words']
    assert described['strongest_frame'] == arrays['temporal'].argmax(-1).tolist()
    assert (output / entry['picture']).read_bytes().startswith(b'\x89PNG')
  page = (output / 'index.html').read_text()
  assert page.count('data:image/png') == 2


def test_a_given_caption_is_escaped(tiny_run, tmp_path, capsys):
  call(tiny_run, tmp_path, '--ids=v7', '--caption=<script>alert("red")</script> ball')
  assert '<script>' not in (tmp_path / 'index.html').read_text()
  assert 'ball' in json.loads((tmp_path / 'attention.json').read_text())['videos'][0]['words']
  assert 'script' in capsys.readouterr().err  # not in the vocabulary


@pytest.mark.parametrize(
  ('arguments', 'named'),
  [
    (['--ids=v77'], 'v77.*v7'),
    (['--split=nowhere'], 'nowhere.*val'),
    (['--videos=/nowhere'], '--videos=/nowhere'),
    (['--inputs=a.npy', '--ids=v7'], '--inputs.*--ids'),
    (['--boxes=image'], '--boxes=image.*sequence'),
    (['--caption= '], '--caption'),
    (['--decode=pass=first'], 'pass.*TemporalSpatial'),
  ],
)
def test_what_is_refused(tiny_run, tmp_path, arguments, named):
  with pytest.raises(SystemExit, match=f'(?s)error: .*{named}'):
    call(tiny_run, tmp_path / 'out', *arguments)
  assert not (tmp_path / 'out').exists()


def test_features_as_inputs(tiny_run, tmp_path):
  (tmp_path / 'image').mkdir()
  np.save(tmp_path / 'image' / 'mine.npy', np.ones((3, tiny.CHANNELS), np.float32))
  call(tiny_run, tmp_path / 'out', f'--inputs={tmp_path}/image/mine.npy')
  (entry,) = json.loads((tmp_path / 'out' / 'attention.json').read_text())['videos']
  assert entry['video_id'] == 'mine'
  assert entry['source'] is None


def test_the_stream_of_boxes():
  boxes = Stream('where', 'regions', (None, None, 6), extractor='torchvision/net/boxes')
  other = Stream('image', 'sequence', (None, 4))
  manifest = Manifest('m', (other, boxes), {})
  assert videos.boxes_stream(manifest, None) == videos.boxes_stream(manifest, 'where') == 'where'
  assert videos.boxes_stream(Manifest('m', (other,), {}), None) == ''
  with pytest.raises(DataError, match='image.*sequence'):
    videos.boxes_stream(manifest, 'image')


def test_boxes_fit_the_regions():
  regions = Stream('objects', 'regions', (None, None, 8))
  features = {
    'objects': np.zeros((3, 5, 8)),
    'where': np.ones((3, 5, 6)),
    'few': np.ones((2, 5, 6)),
  }
  chosen = videos.Chosen(Video('v', (), features))
  restored = types.SimpleNamespace(streams=(regions,))
  notes = []
  assert videos._with_boxes(chosen, 'where', restored, notes.append).boxes.shape == (3, 5, 4)
  assert not notes
  assert videos._with_boxes(chosen, 'few', restored, notes.append).boxes is None
  assert 'few' in notes[0]
  assert 'objects' in notes[0]


def test_pictures_of_the_videos_found(tiny_data, tiny_run, restored, tmp_path):
  from tests.video_files import ramp, write_video

  write_video(tmp_path / 'v7.mp4', ramp(20))
  (tmp_path / 'v8.mp4').write_text('no video')
  notes = []
  options = argparse.Namespace(
    data=tiny_data,
    split='val',
    ids='v7,v8,v9',
    videos=str(tmp_path),
    boxes=None,
    inputs=None,
    frame_rate=None,
  )
  found = videos.choose(options, restored, notes.append)
  assert [c.source is not None for c in found] == [True, False, False]
  # The features' sampling is not known, so their rows are taken to be evenly spaced.
  assert found[0].times['image'].how == 'assumed'
  assert any('v8.mp4' in note for note in notes)
  assert any('v9' in note for note in notes)
