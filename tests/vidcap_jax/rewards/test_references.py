"""References are whole, and unknown words told apart."""

from vidcap_jax.data.vocabulary import EOS, build_vocabulary
from vidcap_jax.rewards.references import encode


def test_references_are_whole_and_unknown_words_told_apart():
  captions = [['a cat sits on the very long mat', 'a cat'], ['a dog']]
  vocabulary = build_vocabulary(['a cat a cat a dog a dog'], 1, 2)
  encoded = encode(captions, vocabulary, count_eos=True)
  assert encoded.shape == (2, 2, 9)  # longer than a caption of the model may be
  unknown = encoded[encoded >= len(vocabulary)]
  assert len(set(unknown.tolist())) == len(unknown) == 7
  assert (encoded == EOS).sum() == 3
