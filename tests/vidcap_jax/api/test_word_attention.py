"""A caption's words have the token ids that they were decoded from."""

import numpy as np

from vidcap_jax.api.word_attention import _tokens
from vidcap_jax.data.vocabulary import EOS, SPECIAL, UNK, Vocabulary

VOCABULARY = Vocabulary((*SPECIAL, "don't", 'a', 'Dog', 'U.S.'))


def test_tokens_are_those_of_the_decoder():
  for tokens in ([5, 4, UNK, 6, 7, EOS], [4, EOS], [EOS]):
    caption = VOCABULARY.decode(np.array(tokens))
    np.testing.assert_array_equal(_tokens(VOCABULARY, caption), np.array(tokens, np.int32))
