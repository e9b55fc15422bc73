"""Extractors: the registry, and errors."""

import numpy as np
import pytest

from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import UserError
from vidcap_jax.features import extraction, extractors, networks, sampling
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
  assert extractors._change(np.ones((1, 2))).tolist() == [[0, 0, 0, 0]]


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
