"""Arrays in memory become the records that a build would make of them."""

import numpy as np
import pytest

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import DataError
from vidcap_jax.inference.feature_inputs import by_stream, from_arrays, from_files

IMAGE = Stream('image', 'sequence', (None, 4))
MOTION = Stream('motion', 'sequence', (None, 3))
SOUND = Stream('sound', 'vector', (2,), optional=True)
REGIONS = Stream('objects', 'regions', (None, None, 3), most_regions=2)


def load(provenance, **arrays):
  return from_arrays(provenance, 'v', arrays).load([]).features


def test_the_options_of_the_build_apply():
  options = {
    'layouts': {'image': 'CT'},
    'align': {'image+motion': 'truncate'},
    'max_frames': {'image': 3},
    'max_regions': {'objects': 2},
  }
  provenance = FeatureProvenance((IMAGE, REGIONS), (MOTION,), options)
  image, motion = np.arange(32.0).reshape(4, 8), np.ones((5, 3))
  found = load(provenance, image=image, motion=motion, objects=np.ones((2, 4, 3)))
  np.testing.assert_array_equal(found['image'], image.T[[0, 2, 4]].astype(np.float16), strict=True)
  assert found['objects'].shape == (2, 2, 3)
  with pytest.raises(DataError, match='missing: motion'):
    load(provenance, image=image, objects=np.ones((2, 4, 3)))


def test_regions_that_the_model_does_not_read_are_noted(tmp_path):
  provenance = FeatureProvenance((REGIONS,))
  regions = np.ones((2, 5, 3), np.float32)
  padded = np.where(np.arange(5)[:, None] < 2, regions, 0)  # all zero is padding
  np.save(tmp_path / 'a.npy', regions)
  np.save(tmp_path / 'b.npy', padded)
  files = from_files(provenance, {'objects': tmp_path})
  arrays = [from_arrays(provenance, v, {'objects': x}) for v, x in (('a', regions), ('b', padded))]
  for cut, whole in (files, arrays):
    notes = []
    whole.load(notes)
    assert notes == []
    cut.load(notes)
    (note,) = notes
    for words in ('a', "'objects'", '5 regions', 'first 2'):
      assert words in note


def test_a_stream_that_a_video_may_lack():
  provenance = FeatureProvenance((IMAGE, SOUND))
  for arrays in ({}, {'sound': None}):
    found = load(provenance, image=np.ones((2, 4)), **arrays)
    assert found['sound'].shape == (0, 2)
  found = load(provenance, image=np.ones((2, 4)), sound=np.arange(2))
  np.testing.assert_array_equal(found['sound'], [[0, 1]])
  assert found['sound'].dtype == np.float16


def test_a_path_for_each_stream(tmp_path):
  provenance = FeatureProvenance((IMAGE, MOTION))
  pairs = [('image', str(tmp_path)), ('motion', str(tmp_path))]
  assert by_stream(provenance, pairs) == {'image': tmp_path, 'motion': tmp_path}
  for wrong, words in (
    (pairs[:1], 'missing: motion'),
    ([*pairs, ('x', 'y')], 'unknown: x'),
    ([*pairs, pairs[0]], 'twice: image'),
    ([('image', '/nowhere'), pairs[1]], "'image': /nowhere"),
  ):
    with pytest.raises(DataError, match=words):
      by_stream(provenance, wrong)
