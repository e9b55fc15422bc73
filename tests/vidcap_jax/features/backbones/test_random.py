"""Random extractors match their declarations."""

import numpy as np

from tests.building import described
from vidcap_jax.features import extraction, extractors
from vidcap_jax.features.backbones import random as random_features

RANDOM = ('random_vector', 'random_sequence', 'random_grid', 'random_regions')


def test_random_extractors_match_their_declarations(paths):
  path = next(iter(paths.values()))
  arrays = extraction.extract_video(path, described(*RANDOM, how={'uniform': 5}))
  assert list(arrays) == list(RANDOM)
  for name, array in arrays.items():
    shape = extractors.get(name).shape
    assert array.ndim == len(shape)
    assert all(want in (None, got) for got, want in zip(array.shape, shape, strict=True))
    assert array.dtype == np.float32
    assert array.std() > 0
  assert len(arrays['random_sequence']) == 5
  np.testing.assert_allclose(
    arrays['random_vector'], arrays['random_sequence'].mean(0), rtol=1e-5, atol=1e-6
  )


def test_regions_of_the_middle_of_every_three_frames(paths):
  path = next(iter(paths.values()))
  streams = described('random_regions', 'random_regions_of_third', how={'uniform': 8})
  arrays = extraction.extract_video(path, streams)
  all_frames, some = arrays.values()
  np.testing.assert_array_equal(some, all_frames[[1, 4, 7]])


def test_random_regions_may_be_absent():
  frames = np.zeros((2, 28, 28, 3), np.uint8)
  frames[1, 4:8, 8:16] = 255  # two cells stand out of the second frame
  regions = random_features.load()(frames, ('regions',))['regions']
  assert regions.shape == (2, random_features.MAX_REGIONS, random_features.CELL_CHANNELS)
  assert np.any(regions != 0, -1).sum(1).tolist() == [1, 2]


def test_random_layers_are_on_one_clock(paths):
  """Each layer has half as many frames as the one before, rounded up."""
  names = [f'random_{layer}' for layer in random_features.PYRAMID]
  path = next(iter(paths.values()))
  arrays = extraction.extract_video(path, described(*names, how={'uniform': 11}))
  assert [len(arrays[name]) for name in names] == [11, 6, 3, 2]
  for name, (rows, channels, _) in zip(names, random_features.PYRAMID.values()):
    assert arrays[name].shape[1:] == (rows, rows, channels)
    assert arrays[name].std() > 0
  frames = random_features.load()(np.zeros((4, 28, 28, 3), np.uint8), ('pool2', 'pool5'))
  assert frames['pool2'].shape == (4, 14, 14, 4)
  assert frames['pool5'].shape == (4, 2, 2, 16)
