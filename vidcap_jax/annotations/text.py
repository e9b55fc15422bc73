"""Cleans captions of line breaks, invisible characters and HTML entities.

Spelling, case and punctuation are not changed. See ``clean``.
"""

import html
import re
import unicodedata

# Characters that are invisible and don't separate words: control characters that are not white
# space, soft hyphens, zero-width spaces, direction marks, U+FEFF, and halves of surrogate pairs,
# which JSON can express but UTF-8 can't. U+200C and U+200D stay, as they join letters and emoji.
_INVISIBLE = re.compile(
  '[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f'
  '\ufeff\ufff9-\ufffb\ud800-\udfff]'
)


def clean(text: str) -> str:
  """A caption as one line of text.

  In this order: HTML entities are resolved (once), invisible characters are removed, and every run
  of white space, including line breaks of any kind, becomes one space; none is left at the ends.
  """
  return ' '.join(_INVISIBLE.sub('', html.unescape(text)).split())


def script(text: str) -> str:
  """The script of most letters, by its Unicode name (``Latin``, ``Cyrillic``, ``Han``).

  Empty if there are no letters.
  """
  counts: dict[str, int] = {}
  for letter in filter(str.isalpha, text):
    name = unicodedata.name(letter, 'unnamed').split()[0].title().replace('Cjk', 'Han')
    counts[name] = counts.get(name, 0) + 1
  return max(counts, key=counts.__getitem__) if counts else ''
