"""The PTB tokeniser."""

import pytest

from vidcap_jax.data.tokenizers import tokenize, without_joiners
from vidcap_jax.evaluation import ptb_tokenizer
from vidcap_jax.evaluation.java import MetricError


def test_tokens_are_lower_case_without_punctuation():
  captions = ["A man's dog can't swim!", '', ' \r\n ', '"Hi," (she said)...', 'one\ud800two']
  assert ptb_tokenizer.tokenize(captions) == [
    "a man 's dog ca n't swim",
    '',
    '',
    'hi -lrb- she said -rrb-',
    'one?two',
  ]


@pytest.mark.parametrize(
  'caption',
  [
    'हिन्दी वाक्य लिखता है',
    'cre\u0300me br\u00fble\u0301e',
    '\u0130stanbul, I\u0307zmir',
    'ผู้ชายกำลังเล่นกีตาร์',
    'ng\u01b0\u01a1\u0300i đàn ông',
    'يُغَنِّي رَجُلٌ',
    'می\u200cخواهم',
    'क्\u200dष',
  ],
)
def test_words_outside_ascii_are_those_of_the_vocabulary(caption):
  words = tokenize(caption, 'ptb_like')
  assert ptb_tokenizer.tokenize([caption]) == [without_joiners(' '.join(words))]


def test_no_captions_need_no_java(no_java):
  assert ptb_tokenizer.tokenize([]) == []


def test_a_tokeniser_that_loses_lines_is_an_error(fake_java):
  fake_java("print('one'); print('oops', file=sys.stderr)")
  with pytest.raises(MetricError, match=r'gave 1 lines for 2 captions .*: oops'):
    ptb_tokenizer.tokenize(['one', 'two'])


def test_a_tokeniser_that_hangs_is_ended(fake_java):
  fake_java('time.sleep(60)')
  with pytest.raises(MetricError, match='took more than 1 s for 2 captions'):
    ptb_tokenizer.tokenize(['one', 'two'], time_limit=1.0)
