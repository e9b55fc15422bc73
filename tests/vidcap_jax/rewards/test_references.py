"""References are whole, and unknown words told apart."""

import numpy as np

from vidcap_jax.data.vocabulary import EOS, build_vocabulary
from vidcap_jax.rewards import cider
from vidcap_jax.rewards.references import LANES, encode, make_references


def test_references_are_whole_and_unknown_words_told_apart():
  captions = [['a cat sits on the very long mat', 'a cat'], ['a dog']]
  vocabulary = build_vocabulary(['a cat a cat a dog a dog'], 1, 2)
  encoded = encode(captions, vocabulary, count_eos=True)
  assert encoded.shape == (2, 2, 9)  # longer than a caption of the model may be
  unknown = encoded[encoded >= len(vocabulary)]
  assert len(set(unknown.tolist())) == len(unknown) == 7
  assert (encoded == EOS).sum() == 3


def test_tables_are_stored_as_matrices_whose_rows_are_videos():
  captions = [['a cat sits', 'a cat', 'the cat'], ['a dog'], ['one more dog']]
  vocabulary = build_vocabulary(['a cat a cat a dog a dog'], 1, 2)
  tables = make_references(captions, vocabulary, count_eos=True)
  encoded = encode(captions, vocabulary, count_eos=True)
  assert tables.sentences.shape == tables.norms.shape == (3, LANES)
  for row in range(3):
    video = tables.of_video(row)
    np.testing.assert_array_equal(video.sentences, encoded[row])
    expected = cider.norms(encoded[row], tables.frequencies)
    np.testing.assert_allclose(video.norms, expected, rtol=1e-6)
