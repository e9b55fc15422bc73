"""Batches in the form of ImageCaptioning.pytorch: words, labels, masks, order, standardisation."""

import dataclasses

import numpy as np
import pytest

from benchmarks import peer_data
from tests import tiny
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.data.vocabulary import SPECIAL, Vocabulary
from vidcap_jax.errors import DataError

VOCABULARY = Vocabulary((*SPECIAL, 'a', 'dog', 'runs'))


@pytest.fixture(scope='module')
def tiny_data(tmp_path_factory):
  return tiny.build(tmp_path_factory.mktemp('tiny') / 'data')


@pytest.fixture
def reader(tiny_data):
  return peer_data.Reader(read_manifest(tiny_data), 'image', 'image', 16, False)


def test_labels_begin_and_end_with_zero_and_unknown_is_the_last_word():
  words = peer_data.peer_words(VOCABULARY)
  assert words == {'1': 'a', '2': 'dog', '3': 'runs', '4': 'UNK'}
  labels, masks = peer_data.to_labels(VOCABULARY, ['A dog runs', 'a cat'], 5)
  np.testing.assert_array_equal(labels, [[0, 1, 2, 3, 0, 0, 0], [0, 1, 4, 0, 0, 0, 0]])
  np.testing.assert_array_equal(masks.sum(axis=1), [5, 4])  # both ends are trained on


def test_a_long_caption_is_cut_and_still_ends():
  labels, masks = peer_data.to_labels(VOCABULARY, ['a dog runs runs'], 2)
  np.testing.assert_array_equal(labels, [[0, 1, 2, 0]])
  assert masks.all()


def test_an_epoch_has_each_video_once_in_a_drawn_order(reader, tiny_data):
  source = open_split(tiny_data, 'train')
  order = lambda seed: np.concatenate(  # noqa: E731
    [batch.means for batch in peer_data.training_batches(reader, source, 3, seed)]
  )
  means = np.stack([video.features['image'].astype(np.float32).mean(axis=0) for video in source])
  assert not np.array_equal(order(0), order(1))
  np.testing.assert_array_equal(order(0), order(0))
  np.testing.assert_allclose(np.sort(order(0), axis=0), np.sort(means, axis=0), rtol=1e-6)


def test_entries_are_padded_and_masked(reader, tiny_data):
  videos = list(open_split(tiny_data, 'train'))[:3]  # of 2, 3 and 4 frames
  batch = reader.batch(videos)
  np.testing.assert_array_equal(batch.entry_masks.sum(axis=1), [2, 3, 4])
  assert batch.entries.shape == (3, 4, tiny.CHANNELS)
  assert not batch.entries[0, 2:].any()
  assert reader.batch(videos[:1]).entry_masks is None


def test_features_are_standardised_as_for_our_models(tiny_data):
  manifest = read_manifest(tiny_data)
  reader = peer_data.Reader(manifest, 'image', 'image', 16, True)
  entries = np.concatenate([reader.batch([v]).entries[0] for v in open_split(tiny_data, 'train')])
  np.testing.assert_allclose(entries.mean(axis=0), 0, atol=1e-3)
  np.testing.assert_allclose(entries.std(axis=0), 1, atol=1e-3)


def test_what_cannot_be_read_is_named(tiny_data):
  manifest = read_manifest(tiny_data)
  with pytest.raises(DataError, match='entry_stream=cells.*image'):
    peer_data.Reader(manifest, 'image', 'cells', 16, False)
  with pytest.raises(DataError, match='vocabulary'):
    peer_data.Reader(dataclasses.replace(manifest, vocabulary=None), 'image', 'image', 16, False)
