"""Words that the metrics' PTB tokenizer splits otherwise than vocabularies do.

The metrics keep symbols (``&``, ``/``, ``%``, brackets) and split some words (``cannot``); the
tokenizer of vocabularies removes symbols and keeps the words. Such captions are counted, and both
stay as they are, since data sets and published scores depend on them.
"""

import collections
import re
from collections.abc import Iterable

# PTB's contractions and abbreviations that captions have. Symbols are those of ASCII and of
# Unicode's Latin-1 and currency signs.
_CONTRACTION = re.compile(r"\b(?:cannot|gonna|gotta|wanna|gimme|lemme|whaddya|d'ye|y'all|more'n)\b")
_DIFFERENT = re.compile(
  _CONTRACTION.pattern
  + r"""
  | '(?:tis|twas|em|cause)\b | \b\w+'n'\w* | '\d\d?s?\b
  | \b(?:mr|mrs|ms|dr|jr|sr|st|vs|etc|inc|ltd|co|no|prof)\.(?=\s|$)
  | \b[a-z](?:\.[a-z])+\b\.? | \b\w+\.\w[\w.]*\b(?<![\d.]) | \d:\d\d[ap]m\b | (?<!\S)[-+]\d
  | \w+(?:[/_@\\]\w+)+ | [#@]\w+ | [\w]*[\u00b9\u00b2\u00b3\u00bc-\u00be]
  | [][&/%(){}$\#+=@*\\<>~^|_\u00a1-\u00a9\u00ac\u00ae-\u00b1\u00b4-\u00b8\u00bf\u20a0-\u20bf\u2122]
  """,
  re.VERBOSE,
)


# Captions of these characters alone are checked for contractions only, which is faster.
_PLAIN = re.compile('[a-z ,!?]*[.]?')


def different_words(captions: Iterable[str]) -> tuple[int, collections.Counter[str]]:
  """Counts captions with words that the metrics split otherwise.

  It follows rules, as the tokenizer itself needs Java: an evaluation, which has Java, compares the
  words themselves.

  Returns:
    The number of such captions, and how often each such word or symbol is in them.
  """
  words: collections.Counter[str] = collections.Counter()
  count = 0
  for caption in captions:
    text = caption.lower().replace('\u2019', "'")
    found = (_CONTRACTION if _PLAIN.fullmatch(text) else _DIFFERENT).findall(text)
    count += bool(found)
    words.update(found)
  return count, words
