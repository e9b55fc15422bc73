"""Splits captions into words: for vocabularies, for rewards, and before the metrics' tokenizer.

Text is compared in one normal form: Unicode's NFC, in which a letter and its accent are one
character where Unicode has one. Other marks (Devanagari's vowels, Thai's tones, Arabic's vowel
signs) stay in their word.
"""

import functools
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping

from vidcap_jax.errors import DataError

# Zero-width non-joiner and joiner, which are part of words in Persian and the scripts of India.
_JOINERS = '\u200c\u200d'
# Variation selectors are marks (Mn) too, but they choose a picture, mostly of an emoji.
_SELECTORS = re.compile('[\ufe00-\ufe0f\U000e0100-\U000e01ef]')


_DOTTED_I = re.compile('\u0130\u0307*|[iI]\u0307+')
_nfc = functools.partial(unicodedata.normalize, 'NFC')


def normalize(text: str) -> str:
  """The text in NFC, with Turkish's dotted capital I as a plain one.

  Python and Java lower-case the dotted I to ``i`` and a dot above it, which no other spelling of
  the word has; ``İstanbul`` and ``istanbul`` are the same word here.
  """
  if text.isascii():
    return text
  text = _DOTTED_I.sub(lambda match: match[0][0].replace('\u0130', 'I'), _nfc(text))
  return _nfc(text)


def without_joiners(text: str) -> str:
  """The text without joiners, at which the metrics' tokenizer would split words."""
  return text if text.isascii() else re.sub(f'[{_JOINERS}]', '', text)


def _patterns(mark: str) -> tuple[re.Pattern, re.Pattern]:
  """The patterns of clitics and of words.

  Args:
    mark: the characters, as in brackets of a pattern, that stay in the word before them.
  """
  letter, no_more = r'[^\W_]', r'(?!\w)'
  if mark:
    no_more = rf'(?![\w{mark}])'
    joiner = rf'(?:(?<=[{mark}])[{_JOINERS}]|[{_JOINERS}](?=[^\W_]))'
    letter = rf'(?:[^\W_](?:[{mark}]|{joiner})*)'
  # English clitics, which the Penn Treebank splits off: "it's" -> "it 's", "don't" -> "do n't".
  clitic = rf"(?<=[\w{mark}])('(?:s|re|ve|ll|d|m)|n't){no_more}"
  # A clitic, a number with inner marks (3.5, 1,000), or a word with inner hyphens or apostrophes.
  word = (
    rf"n't{no_more}|'(?:s|re|ve|ll|d|m){no_more}|\d+(?:[.,:]\d+)+{no_more}"
    rf"|{letter}+(?:[-']{letter}+)*"
  )
  return re.compile(clitic), re.compile(word)


_ASCII_PATTERNS = _patterns('')


@functools.cache
def _unicode_patterns() -> tuple[re.Pattern, re.Pattern]:
  characters = map(chr, range(0x300, min(0x20000, sys.maxunicode)))  # no marks in words elsewhere
  marks = (c for c in characters if unicodedata.category(c) in ('Mn', 'Mc'))
  return _patterns(''.join(c for c in marks if not _SELECTORS.match(c)))


def _ptb_like(text: str) -> list[str]:
  return _words(_nfc(normalize(text).lower()))


def _words(text: str) -> list[str]:
  clitic, word = _ASCII_PATTERNS if text.isascii() else _unicode_patterns()
  text = text.replace('\u2019', "'").replace('\u2018', "'")
  return word.findall(clitic.sub(r' \1', text))


# Chinese characters, which are written without spaces between words.
_HAN = re.compile('[\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]')


def separate_characters(text: str) -> str:
  """Puts spaces around each Chinese character; punctuation outside ASCII becomes spaces."""
  spaced = _HAN.sub(r' \g<0> ', text)
  marks = (not c.isascii() and unicodedata.category(c).startswith('P') for c in spaced)
  return ''.join(' ' if mark else c for mark, c in zip(marks, spaced, strict=True))


def _by_character(text: str) -> list[str]:
  return _ptb_like(separate_characters(text))


def _whitespace(text: str) -> list[str]:
  return _nfc(text).split()


TOKENIZERS: Mapping[str, Callable[[str], list[str]]] = {
  'ptb_like': _ptb_like,
  'by_character': _by_character,
  'whitespace': _whitespace,
}


def _ptb_like_before_nfc(text: str) -> list[str]:
  clitic, word = _ASCII_PATTERNS
  text = text.lower().replace('\u2019', "'").replace('\u2018', "'")
  return word.findall(clitic.sub(r' \1', text))


# As words were split before text was normalized, when marks ended a word: for vocabularies with
# words outside ASCII that were made then.
TOKENIZERS_BEFORE_NFC: Mapping[str, Callable[[str], list[str]]] = {
  'ptb_like': _ptb_like_before_nfc,
  'by_character': lambda text: _ptb_like_before_nfc(separate_characters(text)),
  'whitespace': str.split,
}


def tokenize(text: str, tokenizer: str = 'ptb_like') -> list[str]:
  """Splits a caption into words.

  ``ptb_like`` normalizes (``normalize``) and lower-cases, splits clitics as the Penn Treebank does
  and removes punctuation, so that captions made of its words pass the metrics' PTB tokenizer nearly
  unchanged (docs/evaluation.md lists the exceptions). ``by_character`` does the same after
  splitting Chinese into characters. ``whitespace`` splits at white space and changes nothing but
  the normal form, NFC (captions that are tokenized already).

  Raises:
    DataError: an unknown tokenizer.
  """
  if tokenizer not in TOKENIZERS:
    raise DataError(f'unknown tokenizer {tokenizer!r}; known: {", ".join(TOKENIZERS)}')
  return TOKENIZERS[tokenizer](text)
