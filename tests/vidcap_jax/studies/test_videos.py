"""Videos of a study: their files, the times of their frames, and their boxes."""

import argparse
import types

import numpy as np
import pytest

from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Manifest, Stream
from vidcap_jax.errors import DataError
from vidcap_jax.studies import videos


def test_the_stream_of_boxes():
  boxes = Stream('where', 'regions', (None, None, 6), extractor='torchvision/net/boxes')
  other = Stream('image', 'sequence', (None, 4))
  manifest = Manifest('m', (other, boxes), {})
  assert videos.boxes_stream(manifest, None) == videos.boxes_stream(manifest, 'where') == 'where'
  assert videos.boxes_stream(Manifest('m', (other,), {}), None) == ''
  with pytest.raises(DataError, match='image.*sequence'):
    videos.boxes_stream(manifest, 'image')


def test_ids_with_commas():
  assert videos.split_ids('a,b', {'a', 'b'}) == ['a', 'b']
  assert videos.split_ids('a,b', {'a,b'}) == ['a,b']
  assert videos.split_ids('a,c', {'a,b'}) == ['a', 'c']


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
  found, failed = videos.choose(options, restored, notes.append)
  assert [c.source is not None for c in found] == [True, False, False]
  assert failed == 0
  # The features' sampling is not known, so their rows are taken to be evenly spaced.
  assert found[0].times['image'].how == 'assumed'
  assert any('v8.mp4' in note for note in notes)
  assert any('v9' in note for note in notes)
