"""METEOR's words without Java: its normalization, stems and synonyms.

The lists of function words and of WordNet's synonyms are read from METEOR 1.5's jar, which
pycocoevalcap ships.
"""

import functools
import re
import zipfile
from collections.abc import Collection, Mapping

from vidcap_jax.evaluation import java
from vidcap_jax.evaluation.porter2 import stem

_LETTERS = 'A-Za-zŠŽšžŸÀ-ÖØ-öø-žЀ-ӿԀ-ԧꙀ-ꙮ꙾-ꚗᴀ-ᵿ'
_PLAIN = re.compile('[a-z0-9 ]*')
_BEFORE_DOTS = (
  (re.compile(rf"([^0-9{_LETTERS}\s.'`,\-‘’])", re.ASCII), r' \1 '),
  (re.compile(r'\.(\.+)'), r' DOTMULTI\1'),
)
_TWO_DOTS = re.compile(r'DOTMULTI\.([^.])')
_AFTER_DOTS = (
  (re.compile('([^0-9]),([^0-9])'), r'\1 , \2'),
  (re.compile('([0-9]),([^0-9])'), r'\1 , \2'),
  (re.compile('([^0-9]),([0-9])'), r'\1 , \2'),
  (re.compile('[`‘’]'), "'"),
  (re.compile("[“”]|''"), ' " '),
  (re.compile('–|--'), '-'),
  (re.compile(f'([0-9{_LETTERS}.])-([0-9{_LETTERS}])'), r'\1 \2'),
  (re.compile(f"([^{_LETTERS}])'([^{_LETTERS}])"), r"\1 ' \2"),
  (re.compile(f"([^{_LETTERS}0-9])'([{_LETTERS}])"), r"\1 ' \2"),
  (re.compile(f"([{_LETTERS}])'([^{_LETTERS}])"), r"\1 ' \2"),
  (re.compile(f"([{_LETTERS}])'([{_LETTERS}])"), r"\1 '\2"),
  (re.compile("([0-9])'(s)"), r"\1 '\2"),
)
_JAVA_SPACES = re.compile('[ \t\n\r\f]+')
_WIDE_SPACES = re.compile('[ \u2000-\u200a\u202f\u205f\u3000\u00a0]+')
_A_LETTER = re.compile(f'[{_LETTERS}]')

# Endings of nouns, verbs and adjectives, and what WordNet has in place of them.
_ENDINGS = (
  *(('s', ''), ('ses', 's'), ('xes', 'x'), ('zes', 'z'), ('ches', 'ch'), ('shes', 'sh')),
  *(('men', 'man'), ('ies', 'y'), ('s', ''), ('ies', 'y'), ('es', 'e'), ('es', '')),
  *(('ed', 'e'), ('ed', ''), ('ing', 'e'), ('ing', ''), ('er', ''), ('est', '')),
  *(('er', 'e'), ('est', 'e')),
)


def normalize(text: str) -> list[str]:
  """A caption's words as METEOR compares them, with the option ``-norm``: lower case, with
  punctuation split off."""
  if _PLAIN.fullmatch(text):
    return text.split()
  text = f' {text} '
  for pattern, replacement in _BEFORE_DOTS:
    text = pattern.sub(replacement, text)
  while 'DOTMULTI.' in text:
    text = _TWO_DOTS.sub(r'DOTDOTMULTI \1', text).replace('DOTMULTI.', 'DOTDOTMULTI')
  for pattern, replacement in _AFTER_DOTS:
    text = pattern.sub(replacement, text)
  words = _JAVA_SPACES.sub(' ', text).strip(' ').split(' ')
  text = ' '.join(_period_split_off(words, place) for place in range(len(words)))
  while 'DOTDOTMULTI' in text:
    text = text.replace('DOTDOTMULTI', 'DOTMULTI.')
  text = _WIDE_SPACES.sub(' ', text.replace('DOTMULTI', '.'))
  return [word for word in _JAVA_SPACES.split(text.lower()) if word]


def _period_split_off(words: list[str], place: int) -> str:
  """The word at a place, with its last period as a word of its own unless it is an abbreviation."""
  word = words[place]
  if len(word) < 2 or not word.endswith('.'):
    return word
  rest, following = word[:-1], words[place + 1 : place + 2]
  if '.' in rest and _A_LETTER.search(rest):
    return word.replace('.', '')
  kind = _abbreviations().get(rest)
  if kind == 'any' or (following and re.match('[a-z]', following[0])):
    return word
  if kind == 'number' and following and re.match('[0-9]', following[0]):
    return word
  return f'{rest} .'


def _lines(name: str) -> list[str]:
  """A text file in METEOR's jar."""
  with zipfile.ZipFile(java.packaged('meteor', 'meteor-1.5.jar')) as jar:
    return jar.read(name).decode().splitlines()


@functools.cache
def _abbreviations() -> dict[str, str]:
  """Words after which a period stays: {word: 'any' or, only before a number, 'number'}."""
  rows = [line.split() for line in _lines('nonbreaking/english.prefixes')]
  return {
    row[0]: 'number' if row[1:2] == ['#NUMERIC_ONLY#'] else 'any'
    for row in rows
    if row and not row[0].startswith('#')
  }


@functools.cache
def function_words() -> frozenset[str]:
  """Words such as 'the' and 'of', which count less."""
  return frozenset(_lines('function/english.words'))


@functools.lru_cache(maxsize=1 << 17)
def key(word: str) -> int:
  """Java's hash of a word. METEOR compares these and so takes a few words for others."""
  value = 0
  units = word.encode('utf-16-le', 'surrogatepass')
  for low, high in zip(units[::2], units[1::2], strict=True):
    value = (31 * value + low + 256 * high) & 0xFFFFFFFF
  return value


@functools.lru_cache(maxsize=1 << 17)
def stem_key(word: str) -> int:
  """Java's hash of a word's stem."""
  return key(stem(word))


@functools.cache
def _synsets() -> dict[str, frozenset[int]]:
  """WordNet's synonym sets of each word."""
  lines = iter(_lines('synonym/english.synsets'))
  return {word: frozenset(map(int, next(lines).split())) for word in lines}


@functools.cache
def _bases() -> dict[str, list[str]]:
  """The base forms of irregular words."""
  lines = iter(_lines('synonym/english.exceptions'))
  bases: dict[str, list[str]] = {}
  for base in lines:
    for word in next(lines).split():
      bases.setdefault(word, []).append(base)
  return bases


@functools.lru_cache(maxsize=1 << 17)
def synsets(word: str) -> frozenset[int]:
  """The synonym sets of a word and of its base forms."""
  known = _synsets()
  bases = _bases().get(word)
  if bases is None:
    bases = [_base(word)]
  return frozenset().union(known.get(word, ()), *(known.get(base, ()) for base in bases))


def _base(word: str) -> str:
  """The base form of a regular word; '' if there is none in WordNet."""
  if word.endswith('ss') or len(word) <= 2:
    return word
  rest, added = word, ''
  if word.endswith('ful'):
    rest, added = word, 'ful'
  for ending, other in _ENDINGS:
    if rest.endswith(ending):
      base = word[: -len(ending)] + other
      if base in _synsets():
        return base + added
  return ''


class Vocabulary:
  """Words of references, by what a caption's word may match.

  Args:
    words: all of them.
  """

  def __init__(self, words: Collection[str]):
    self._by_key: dict[int, set[str]] = {}
    self._by_stem: dict[int, set[str]] = {}
    self._by_synset: dict[int, set[str]] = {}
    self._related: dict[str, dict[str, tuple[int, ...]]] = {}
    for word in words:
      self._by_key.setdefault(key(word), set()).add(word)
      self._by_stem.setdefault(stem_key(word), set()).add(word)
      for synset in synsets(word):
        self._by_synset.setdefault(synset, set()).add(word)

  def related(self, word: str) -> Mapping[str, tuple[int, ...]]:
    """The words that a word matches, with the stages that match it: 0 equal, 1 stem, 2 synonym."""
    found = self._related.get(word)
    if found is None:
      equal = self._by_key.get(key(word), set())
      stems = self._by_stem.get(stem_key(word), set()) - equal
      synonyms = set().union(*(self._by_synset.get(s, ()) for s in synsets(word))) - equal
      found = self._related[word] = {
        other: tuple(
          stage for stage, words in enumerate((equal, stems, synonyms)) if other in words
        )
        for other in equal | stems | synonyms
      }
    return found
