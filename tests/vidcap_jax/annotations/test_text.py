"""Captions become one line of visible text."""

from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.annotations.text import clean, script


def test_clean_makes_one_line():
  text = (
    '\ufeffa\r\nman\x0b\x0cis\u2028\u2029\x85 \x1c \tsinging \x00\x07\u200bnow &lt;3 &#39;ok&#39;'
  )
  assert clean(text) == "a man is singing now <3 'ok'"


@given(st.text())
def test_clean_leaves_no_line_breaks(text):
  cleaned = clean(text)
  assert len(cleaned.splitlines()) <= 1
  assert cleaned == ' '.join(cleaned.split())


def test_clean_removes_invisible_characters():
  # A soft hyphen, a direction mark, half of a surrogate pair, an entity for U+FEFF; joiners stay.
  assert clean('a\xad\u202e\ud83d &#xFEFF;&nbsp;b\u200dc') == 'a b\u200dc'
  assert clean('SOMEONE says &amp;lt;hi&gt;.') == 'SOMEONE says &lt;hi>.'  # entities once


def test_scripts():
  texts = ('a man', 'мужчина в TV', '一个男人', '1 2 3!', 'ein Mädchen', 'एक आदमी')
  assert [script(t) for t in texts] == ['Latin', 'Cyrillic', 'Han', '', 'Latin', 'Devanagari']
