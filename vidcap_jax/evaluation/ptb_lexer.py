"""The PTB tokeniser of Stanford CoreNLP 3.4.1 without Java.

CoreNLP's lexer is a finite automaton that JFlex generated. Its tables are constants of a class in
the jar that pycocoevalcap ships; they are read from there, so that words end where Java ends them.
What is done with a matched text (quotes, brackets, fractions, contractions …) is written here.
"""

import array
import dataclasses
import functools
import re
from collections.abc import Callable, Sequence

from vidcap_jax.evaluation.ptb_tables import automaton

_START = 2  # the automaton's state for text in the traditional conventions of the Penn Treebank
_PLAIN = re.compile('[a-z ]*')


def lex(captions: Sequence[str]) -> list[list[str]]:
  """The tokens of captions, lower-cased, as the Java program prints them for these lines.

  Like the program, it takes all captions as one text: whether the period of a last abbreviation is
  a token of its own depends on the first word of the next caption.

  Args:
    captions: text without line breaks.
  """
  units, starts = _Units(), []
  for caption in captions:
    starts.append(units.append(caption + '\n'))
  starts.append(len(units.text))
  return [
    [token for word in caption.split() for token in _tokens_of_word(word)]
    if _PLAIN.fullmatch(caption)
    else _tokens_between(units, start, end - 1)
    for caption, start, end in zip(captions, starts, starts[1:], strict=False)
  ]


@functools.lru_cache(maxsize=1 << 17)
def _tokens_of_word(word: str) -> tuple[str, ...]:
  """The tokens of a word of a to z, which don't depend on its neighbours."""
  units = _Units()
  units.append(word + '\n')
  return tuple(_tokens_between(units, 0, len(word)))


class _Units:
  """Text as UTF-16 units, which the automaton reads.

  Attributes:
    text: a character for each unit.
    classes: of each unit.
  """

  def __init__(self):
    self._parts: list[str] = []
    self.classes: list[int] = []

  def append(self, text: str) -> int:
    """Appends text; returns where it starts."""
    start = len(self.classes)
    if not text.isascii():
      units = array.array('H', text.encode('utf-16-le', 'surrogatepass'))
      text = ''.join(map(chr, units))
    self._parts.append(text)
    classes = automaton().classes
    self.classes += [classes[ord(c)] for c in text]
    return start

  @functools.cached_property
  def text(self) -> str:
    return ''.join(self._parts)


def _tokens_between(units: _Units, start: int, end: int) -> list[str]:
  """The tokens of the text from ``start`` to ``end``, where a line break is."""
  tokens, at = [], start
  while at < end:
    token, following = _token_at(units, at, len(units.classes))
    if following > end:  # a tag that goes on in the next line, which the Java program can't print
      token, following = _token_at(units, at, end)
    at = following
    if token is not None:
      tokens.append(_merge_surrogates(token).lower())
  return tokens


def _token_at(units: _Units, start: int, end: int) -> tuple[str | None, int]:
  """The token that starts at a place, or None for what is left out, and where it ends."""
  action, marked = _longest_match(units, start, end)
  return _ACTIONS[action](_Match(units, start, marked))


def _longest_match(units: _Units, start: int, end: int) -> tuple[int, int]:
  """The action of the longest text that matches at ``start``, and where it ends."""
  tables, classes = automaton(), units.classes
  rows, following = tables.rows, tables.following
  state, at, accepted, marked = _START, start, -1, start
  while at < end:
    state = following[rows[state] + classes[at]]
    if state < 0:
      break
    at += 1
    if tables.accepts[state]:
      accepted, marked = state, at
      if tables.longest[state]:
        break
  return tables.actions[accepted], marked


def _merge_surrogates(text: str) -> str:
  if text.isascii():
    return text
  return text.encode('utf-16-le', 'surrogatepass').decode('utf-16-le', 'replace')


@dataclasses.dataclass(frozen=True)
class _Match:
  """A text that matched, with ``units[start:end]``."""

  units: _Units
  start: int
  end: int

  @property
  def text(self) -> str:
    return self.units.text[self.start : self.end]

  def shorter(self, count: int) -> '_Match':
    """The match without its last units, which are read again."""
    return dataclasses.replace(self, end=self.end - count)

  def before_context(self, state: int, context: int) -> '_Match':
    """The match without the context that has to follow it.

    Args:
      state: where the automaton of the match starts.
      context: where that of the context starts, which reads backwards.
    """
    tables, classes = automaton(), self.units.classes
    ends = set()
    for at in range(self.start, self.end + 1):
      if tables.accepts[state]:
        ends.add(at)
      if at == self.end:
        break
      state = tables.following[tables.rows[state] + classes[at]]
      if state < 0:
        break
    at = self.end
    while not (at in ends and tables.accepts[context]):
      at -= 1
      context = tables.following[tables.rows[context] + classes[at]]
    return dataclasses.replace(self, end=at)

  def without_spaces(self) -> '_Match':
    """The match without spaces at its end."""
    end = self.end
    while end > self.start and self.units.text[end - 1] in ' \t\n\v\f\r\x85':
      end -= 1
    return dataclasses.replace(self, end=end)


# What is done with a match: returns the token, or None for text that is left out, and where reading
# goes on.
_Action = Callable[[_Match], tuple[str | None, int]]

_NO_BREAK_SPACE = '\u00a0'
_FRACTIONS = {'¼': '1/4', '½': '1/2', '¾': '3/4', '⅓': '1/3', '⅔': '2/3'}
_CURRENCIES = {'¢': 'cents', '£': '#', '\u0080': '$', '¤': '$', '₠': '$', '€': '$'}
_OPENING = {'\u0091': '`', '‘': '`', '‛': '`', '‹': '`', '\u0093': '``', '“': '``', '«': '``'}
_CLOSING = {'\u0092': "'", '’': "'", '›': "'", '\u0094': "''", '”': "''", '»': "''"}


def _token(change: Callable[[str], str] = str, back: int = 0) -> _Action:
  """The text, changed, without its last ``back`` units, which are read again."""

  def action(match: _Match) -> tuple[str, int]:
    match = match.shorter(back)
    return change(match.text), match.end

  return action


def _before(state: int, change: Callable[[str], str] = str, spaces: bool = False) -> _Action:
  """The text before its context; see ``_Match.before_context``."""

  def action(match: _Match) -> tuple[str, int]:
    match = match.before_context(state, _CONTEXTS[state])
    if spaces:
      match = match.without_spaces()
    return change(match.text), match.end

  return action


# The states where automata of a text and of its context start.
_CONTEXTS = {3: 4, 5: 6, 7: 8, 9: 10, 11: 12, 13: 14, 15: 14, 16: 17}


def _skip(match: _Match) -> tuple[None, int]:
  return None, match.end


def _constant(text: str) -> _Action:
  return _token(lambda _: text)


def _opening_quote(match: _Match) -> tuple[str, int]:
  match = dataclasses.replace(match, end=match.start + 1)
  return _quotes(match.text, opening=True), match.end


def _abbreviation(match: _Match) -> tuple[str, int]:
  """The text with its period, which is read again as the end of the sentence."""
  return match.text, match.end - 1


def _acronym(match: _Match) -> tuple[str, int]:
  match = match.before_context(7, _CONTEXTS[7]).without_spaces()
  if match.end - match.start == 2:  # a letter and a period, which is no acronym
    return match.shorter(1).text, match.end - 1
  return _abbreviation(match)


def _acronym_before_a_sentence(match: _Match) -> tuple[str, int]:
  return _abbreviation(match.before_context(11, _CONTEXTS[11]))


def _without_soft_hyphens(text: str) -> str:
  return text.replace('\u00ad', '') or '-'


def _dashes(text: str) -> str:
  return '--' if 3 <= len(text) <= 4 else text


def _replaced(table: dict[str, str]) -> Callable[[str], str]:
  return lambda text: ''.join(table.get(c, c) for c in text)


def _quotes(text: str, opening: bool) -> str:
  """Quotes in LaTeX's form, as the Penn Treebank has them."""
  text = re.sub("&apos;|'", '`' if opening else "'", text)
  text = re.sub('"|&quot;', '``' if opening else "''", text)
  return _replaced(_OPENING | _CLOSING)(text)


def _closing_quotes(text: str) -> str:
  return _quotes(text, opening=False)


def _opening_quotes(text: str) -> str:
  return _quotes(text, opening=True)


def _parentheses(text: str) -> str:
  return text.replace('(', '-LRB-').replace(')', '-RRB-')


def _joined(text: str) -> str:
  """The text as one token, with no-break spaces."""
  return text.replace(' ', _NO_BREAK_SPACE)


def _ampersands(text: str) -> str:
  return re.sub('&amp;', '&', text, flags=re.IGNORECASE)


_TEXT = _token()
# By the number of the action in the automaton.
_ACTIONS: dict[int, _Action] = {
  1: _skip,  # a character that no rule has
  2: _constant('<'),
  3: _TEXT,
  4: _token(_dashes),
  5: _skip,  # a line break
  6: _token(_without_soft_hyphens),
  7: _skip,  # spaces
  8: _token(_closing_quotes),
  9: _TEXT,
  10: _constant('>'),
  11: _constant('--'),
  12: _token(_without_soft_hyphens),
  13: _constant('...'),
  14: _token(_replaced(_FRACTIONS)),
  15: _token(_replaced(_CURRENCIES)),
  16: _constant('-RCB-'),
  17: _constant('-LRB-'),
  18: _constant('-RRB-'),
  19: _TEXT,
  20: _constant('-LCB-'),
  21: _constant('-RSB-'),
  22: _constant('-LSB-'),
  23: _skip,
  24: _before(13),
  25: _token(back=1),
  26: _token(_opening_quotes, back=1),
  27: _token(_joined),
  28: _token(_parentheses),
  29: _token(_without_soft_hyphens),
  30: _before(3, _without_soft_hyphens),
  31: _TEXT,
  32: _token(_without_soft_hyphens, back=1),
  33: _abbreviation,
  34: _token(_parentheses, back=1),
  35: _opening_quote,
  36: _token(_closing_quotes, back=1),
  37: _token(_ampersands),
  38: _token(_joined),
  39: _token(_joined),
  40: _before(5, _without_soft_hyphens),
  41: _before(16),
  42: _token(back=2),
  43: _before(15),
  44: _before(9, spaces=True),
  45: _TEXT,
  46: _token(_without_soft_hyphens, back=1),
  47: _acronym,
  48: _token(back=2),
  49: _acronym_before_a_sentence,
  50: _token(back=3),
  51: _token(_ampersands, back=1),
  52: _TEXT,
  53: _token(back=4),
  54: _token(lambda text: _parentheses(_joined(text))),
}
