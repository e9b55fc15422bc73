"""The stemmer of METEOR's second stage: Porter's English stemmer of 2001, also called Porter2.

Snowball's page of the algorithm describes the steps: https://snowballstem.org/algorithms/english/
stemmer.html. Later versions of it give other stems for some words; METEOR 1.5 has this one.
"""

import functools
import re

# A y that starts a word or follows a vowel is a consonant, written Y while the word is stemmed.
_CONSONANT_Y = re.compile('^y|([aeiouy])y')
_REGION = re.compile('[aeiouy][^aeiouy]')
_IRREGULAR_REGION = re.compile('gener|commun|arsen')
_VOWEL = re.compile('[aeiouy]')
_DOUBLE = re.compile('(?:bb|dd|ff|gg|mm|nn|pp|rr|tt)$')
_SHORT_SYLLABLE = re.compile('(?:[^aeiouy][aeiouy][^aeiouywxY]|^[aeiouy][^aeiouy])$')


# Rules are written as 'ending:other', with nothing after the colon where the ending is removed.
def _rules(text: str) -> dict[str, str]:
  return dict(rule.split(':') for rule in text.split())


_WHOLE_WORDS = _rules(
  'skis:ski skies:sky dying:die lying:lie tying:tie idly:idl gently:gentl ugly:ugli early:earli '
  'only:onli singly:singl sky:sky news:news howe:howe atlas:atlas cosmos:cosmos bias:bias '
  'andes:andes'
)
_AFTER_PLURALS = frozenset(
  ('inning', 'outing', 'canning', 'herring', 'earring', 'proceed', 'exceed', 'succeed')
)
_STEP_2 = _rules(
  'ization:ize ational:ate fulness:ful ousness:ous iveness:ive tional:tion biliti:ble lessli:less '
  'entli:ent ation:ate alism:al aliti:al ousli:ous iviti:ive fulli:ful enci:ence anci:ance '
  'abli:able izer:ize ator:ate alli:al bli:ble ogi:og li:'
)
_STEP_3 = _rules('ational:ate tional:tion alize:al icate:ic iciti:ic ative: ical:ic ness: ful:')
_STEP_4 = (
  *('ement', 'ance', 'ence', 'able', 'ible', 'ment', 'ant', 'ent', 'ism', 'ate', 'iti'),
  *('ous', 'ive', 'ize', 'ion', 'al', 'er', 'ic'),
)


@functools.lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
  """The stem of a lower-case word."""
  if word in _WHOLE_WORDS:
    return _WHOLE_WORDS[word]
  if len(word) < 3:
    return word
  word = _CONSONANT_Y.sub(r'\1Y', word.removeprefix("'"))
  r1, r2 = _regions(word)
  word = _without_plural(word)
  if word in _AFTER_PLURALS:
    return word
  word = _without_participle(word, r1)
  if len(word) > 2 and word[-1] in 'yY' and word[-2] not in 'aeiouy':
    word = word[:-1] + 'i'
  word = _without_derivation(word, r1, r2)
  return _without_last_letter(word, r1, r2).replace('Y', 'y')


def _regions(word: str) -> tuple[int, int]:
  """Where R1 and R2 start: after the first consonant that follows a vowel, and once more."""
  irregular = _IRREGULAR_REGION.match(word)
  first = irregular or _REGION.search(word)
  r1 = first.end() if first else len(word)
  second = _REGION.search(word, r1)
  return r1, second.end() if second else len(word)


def _without_plural(word: str) -> str:
  """Steps 0 and 1a: without 's and plural endings."""
  for ending in ("'s'", "'s", "'"):
    if word.endswith(ending):
      word = word[: -len(ending)]
      break
  if word.endswith('sses'):
    return word[:-2]
  if word.endswith(('ied', 'ies')):
    return word[:-2] if len(word) > 4 else word[:-1]
  if word.endswith('s') and not word.endswith(('us', 'ss')) and _VOWEL.search(word[:-2]):
    return word[:-1]
  return word


def _without_participle(word: str, r1: int) -> str:
  """Step 1b: without -ed, -ing and their adverbs."""
  for ending in ('eedly', 'eed'):
    if word.endswith(ending):
      return word[: -len(ending)] + 'ee' if len(word) - len(ending) >= r1 else word
  for ending in ('ingly', 'edly', 'ing', 'ed'):
    if word.endswith(ending):
      rest = word[: -len(ending)]
      if not _VOWEL.search(rest):
        return word
      if rest.endswith(('at', 'bl', 'iz')):
        return rest + 'e'
      if _DOUBLE.search(rest):
        return rest[:-1]
      return rest + 'e' if len(rest) <= r1 and _SHORT_SYLLABLE.search(rest) else rest
  return word


def _without_derivation(word: str, r1: int, r2: int) -> str:
  """Steps 2 to 4: without suffixes that make nouns, adjectives and adverbs."""
  for ending, other in _STEP_2.items():
    if word.endswith(ending):
      rest = word[: -len(ending)]
      before = {'ogi': 'l', 'li': 'cdeghkmnrt'}.get(ending)
      if len(rest) >= r1 and (before is None or rest.endswith(tuple(before))):
        word = rest + other
      break
  for ending, other in _STEP_3.items():
    if word.endswith(ending):
      rest = word[: -len(ending)]
      if len(rest) >= (r2 if ending == 'ative' else r1):
        word = rest + other
      break
  for ending in _STEP_4:
    if word.endswith(ending):
      rest = word[: -len(ending)]
      if len(rest) >= r2 and (ending != 'ion' or rest.endswith(('s', 't'))):
        word = rest
      break
  return word


def _without_last_letter(word: str, r1: int, r2: int) -> str:
  """Step 5: without a last e, or one of two l."""
  rest = word[:-1]
  if word.endswith('e'):
    if len(rest) >= r2 or (len(rest) >= r1 and not _SHORT_SYLLABLE.search(rest)):
      return rest
  elif word.endswith('ll') and len(rest) >= r2:
    return rest
  return word
