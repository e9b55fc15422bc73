"""Extractors: the registry, and errors."""

import numpy as np
import pytest

from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import UserError
from vidcap_jax.features import extraction, extractors, finish, networks, sampling
from vidcap_jax.features.backbones import random as random_features


def test_registry_fits_the_schema():
  for extractor in extractors.REGISTRY.values():
    assert len(extractor.shape) == len(KINDS[extractor.kind])
    assert extractor.shape[-1] == extractor.channels
    assert extractor.network in extractors.NETWORKS
    reads = networks.NETWORKS[extractor.network].reads
    assert sampling.check(extractor.sampling, reads) == extractor.sampling
    assert reads != 'audio' or KINDS[extractor.kind][0] == 'T'  # to be absent, T = 0


def test_motion_of_one_frame_is_zero(clips):
  assert finish.change(np.ones((1, 2))).tolist() == [[0, 0, 0, 0]]


def test_coarser_grid_has_means_of_blocks(paths):
  fine = extractors.get('random_grid')
  assert extractors.get('random_grid1').shape == (None, 1, 1, random_features.CELL_CHANNELS)
  lite, coarse = (extractors.get(f'efficientnet_lite2_grid{n}') for n in ('', '3'))
  assert (coarse.kind, coarse.shape) == ('grid', (None, 3, 3, 1280))
  assert (coarse.network, coarse.outputs) == (lite.network, lite.outputs)
  cells = np.random.default_rng(0).normal(size=(2, 9, 9, 4)).astype(np.float32)
  means = [[cells[:, r : r + 3, c : c + 3].mean((1, 2)) for c in (0, 3, 6)] for r in (0, 3, 6)]
  np.testing.assert_allclose(
    coarse.finish(cells), np.moveaxis(np.array(means), 2, 0), rtol=1e-5, atol=1e-6
  )

  streams = {
    name: extractors.describe(name, {'uniform': 4}) for name in ('random_grid', 'random_grid1')
  }
  arrays = extraction.extract_video(next(iter(paths.values())), streams)
  assert fine.shape[1:3] == arrays['random_grid'].shape[1:3]
  np.testing.assert_allclose(
    arrays['random_grid1'][:, 0, 0], arrays['random_grid'].mean((1, 2)), rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize(
  'name', ['random_grid2', 'efficientnet_lite2_grid4', 'efficientnet_lite0_grid10']
)
def test_coarser_grid_must_divide_the_cells(name):
  with pytest.raises(extractors.ExtractorError, match='equal blocks'):
    extractors.get(name)


def test_unknown_extractor_error_lists_the_known_ones():
  with pytest.raises(extractors.ExtractorError, match='resnet.*efficientnet_lite0'):
    extractors.describe('resnet')
  assert issubclass(extractors.ExtractorError, UserError)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'extractor': None}, 'extractor'),
    ({'extractor': 'resnet'}, 'unknown extractor'),
    ({'version': '0'}, "version '0'"),
    ({'version': None}, 'version None'),
    ({'sampling': None}, 'sampling'),
    ({'sampling': {'every': 0}}, 'every=0'),
  ],
)
def test_streams_that_cannot_be_reproduced_are_errors(paths, change, message):
  streams = {'image': {**extractors.describe('random_sequence'), **change}}
  with pytest.raises(extractors.ExtractorError, match=message) as caught:
    extraction.extract_video(next(iter(paths.values())), streams)
  assert "stream 'image'" in str(caught.value)


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('a:random_sequence@window=16/8', "'a'.*window"),
    ('a:random_windows@hop=1', "'a'.*hop"),
    ('a:random_sound@every=5', "'a'.*every"),
    ('a:random_sequence@', "'a'.*KEY=NUMBER"),
  ],
)
def test_a_sampling_must_fit_the_network(text, message):
  name, _, made_by = text.partition(':')
  with pytest.raises(extractors.ExtractorError, match=message):
    extractors.describe_all({name: made_by}, {})


def test_default_sampling_is_for_single_frames():
  made_by = {'a': 'random_sequence', 'b': 'random_sequence@every=5', 'c': 'random_windows'}
  described = extractors.describe_all({**made_by, 'd': 'random_sound'}, {'uniform': 3})
  assert {name: sampling.text_of(d['sampling']) for name, d in described.items()} == {
    'a': 'uniform=3',
    'b': 'every=5',
    'c': 'every=1+window=16/8',
    'd': 'hop=0.96',
  }


def test_features_made_before_exact_time_stamps_are_still_made():
  older = {'extractor': 'random_sequence', 'version': random_features.VERSION}
  current = extractors.check('image', {**older, 'sampling': {'every': 5}})
  assert current['version'] == random_features.VERSION + extractors.EXACT_CLOCK
  assert extractors.check('image', current) == current
