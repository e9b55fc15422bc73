import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.data.tokenizers import TOKENIZERS, TOKENIZERS_BEFORE_NFC, normalize, tokenize
from vidcap_jax.errors import DataError


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('A man is singing.', 'a man is singing'),
    ("a man doesn't like it's T-shirt", "a man does n't like it 's t-shirt"),
    ('the dog\u2019s ball', "the dog 's ball"),
    ('a man says \'hello\' (twice), "bye" & leaves', 'a man says hello twice bye leaves'),
    ('3.5 of 1,000 at 12:30.', '3.5 of 1,000 at 12:30'),
    ("rock'n'roll at five o'clock", "rock'n'roll at five o'clock"),
    ('snake_case, ball/game', 'snake case ball game'),
    ('\u00dcber caf\u00e9 \u732b', '\u00fcber caf\u00e9 \u732b'),
    ('it s a boy', 'it s a boy'),
    (' \t\n', ''),
    ('... !?', ''),
  ],
)
def test_ptb_like_words(text, words):
  assert tokenize(text, 'ptb_like') == words.split()


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('一个男人在跑步，他很快。', '一 个 男 人 在 跑 步 他 很 快'),
    ('3个人打“NBA”篮球；好…… 一〇年', '3 个 人 打 nba 篮 球 好 一 〇 年'),
    ("a man's dog", "a man 's dog"),
  ],
)
def test_words_by_character(text, words):
  assert tokenize(text, 'by_character') == words.split()


def test_whitespace_tokenizer_changes_nothing():
  assert tokenize(' A man,  sings ', 'whitespace') == ['A', 'man,', 'sings']


@pytest.mark.parametrize('tokenizer', ['ptb_like', 'by_character'])
@given(text=st.text(max_size=60) | st.text("a'. ns3-，个人", max_size=12))
def test_tokenizing_its_own_words_changes_nothing(tokenizer, text):
  words = tokenize(text, tokenizer)
  assert tokenize(' '.join(words), tokenizer) == words
  assert all(word and not set(word) & set(' \n.!?"') - set('.') for word in words)


def test_unknown_tokenizer_names_the_known_ones():
  with pytest.raises(DataError, match=r"'moses'.*ptb_like, by_character, whitespace"):
    tokenize('a', 'moses')


@pytest.mark.parametrize(
  ('text', 'words'),
  [
    ('हिन्दी वाक्य लिखता है', 'हिन्दी वाक्य लिखता है'),
    ('बिल्ली।', 'बिल्ली'),
    ('cre\u0300me br\u00fble\u0301e', 'cr\u00e8me br\u00fbl\u00e9e'),
    ('\u0130stanbul, I\u0307zmir', 'istanbul izmir'),
    ('ผู้ชายกำลังเล่นกีตาร์', 'ผู้ชายกำลังเล่นกีตาร์'),
    ('ng\u01b0\u01a1\u0300i đàn ông', 'ng\u01b0\u1eddi đàn ông'),
    ('يُغَنِّي رَجُلٌ', 'يُغَنِّي رَجُلٌ'),
    ('می\u200cخواهم', 'می\u200cخواهم'),
    ('क्\u200dष, അവന്\u200d!', 'क्\u200dष അവന്\u200d'),
    ('\u2764\ufe0f a \U0001f468\u200d\U0001f469 b', 'a b'),
    ('\u0301 a', 'a'),
  ],
)
def test_marks_and_joiners_stay_in_their_word(text, words):
  assert tokenize(text, 'ptb_like') == words.split(' ')


@pytest.mark.parametrize('tokenizer', TOKENIZERS)
@given(
  text=st.text(st.characters(max_codepoint=127), max_size=60) | st.text("a'. ns3-", max_size=12)
)
def test_words_of_ascii_are_those_of_earlier_versions(tokenizer, text):
  assert tokenize(text, tokenizer) == TOKENIZERS_BEFORE_NFC[tokenizer](text)


@pytest.mark.parametrize('tokenizer', TOKENIZERS)
def test_a_letter_with_its_accent_is_one_word_however_it_is_written(tokenizer):
  assert tokenize('cre\u0300me', tokenizer) == tokenize('cr\u00e8me', tokenizer) == ['cr\u00e8me']


@given(st.text() | st.text('iI\u0130\u0307\u0301\u0323'))
def test_normalizing_twice_changes_nothing(text):
  assert normalize(normalize(text)) == normalize(text)
