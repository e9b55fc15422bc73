"""Words that the metrics split otherwise, against the metrics' own tokenizer."""

import pytest

from vidcap_jax.data.metric_words import different_words
from vidcap_jax.data.tokenizers import tokenize
from vidcap_jax.evaluation import ptb_tokenizer

DIFFERENT = [
  *('salt & pepper', 'a black/white dog', 'a (big) dog', 'a [b] c', '50% of it', 'on 9/11'),
  *('he cannot go', 'gonna sing', 'They wanna', 'gimme it', "rock'n'roll", "'tis it", 'a $5 bill'),
  *('#8 of a', 'a @home', 'a + b', 'vlog_1 of', 'the U.S. army', 'mr. smith runs', 'at 3:30pm'),
  *('\u00bd cup', '5\u00b0 c', '\u00a35', 'x = y', "the '80s", '-5 degrees', '\u00bfqu\u00e9?'),
]
SAME = [
  *('a man sings.', "it's a dog, isn't it?", 'a t-shirt', '3.5 of 1,000 at 12:30', "five o'clock"),
  *(
    '"bye", he says...',
    'a caf\u00e9',
    'the dog\u2019s ball',
    'a 3d game; a mid-20s man',
    "O'Brien",
  ),
  *("O'Brien", 'the can not', "dogs' ball", 'A man - a dog -- run!', "the 80's"),
]


@pytest.mark.parametrize(
  ('captions', 'different'), [(DIFFERENT, True), (SAME, False)], ids=['different', 'same']
)
def test_captions_that_the_metrics_split_otherwise(captions, different):
  tokens = ptb_tokenizer.tokenize(captions)
  for caption, words in zip(captions, tokens, strict=True):
    assert (words != ' '.join(tokenize(caption))) == different, (caption, words)
    assert different_words([caption])[0] == different, caption


def test_words_are_counted():
  count, words = different_words(['salt & pepper & oil', 'a & b', 'He cannot', 'a dog'])
  assert count == 3
  assert words == {'&': 3, 'cannot': 1}
