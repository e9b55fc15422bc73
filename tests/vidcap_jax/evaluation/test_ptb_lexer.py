"""The PTB tokeniser without Java, against the Java program."""

import random
import string

import pytest

from vidcap_jax.evaluation import ptb_lexer, ptb_tables, ptb_tokenizer

# Text of every kind that the tokeniser has a rule for.
PIECES = (
  *("don't", 'cannot', 'gonna', "'tis", "o'clock", "rock'n'roll", "d'ye", "y'all", "'em", "n't"),
  *('mr.', 'u.s.', 'U.S. The', 'e.g.', 'p.m.', 'ph.d.', 'Inc.', 'No. 5', 'a.', 'J. Smith', 'etc.'),
  *('(415) 555-1234', '1 1/2', '½', '1,000.5', '10:30', '12/12/2012', '-5', "'90s", '1st', '.5'),
  *(
    '€5',
    '£3',
    '¢',
    'US$',
    '$5m',
    '%',
    'AT&T',
    '&amp;',
    '&lt;',
    '&quot;',
    'R&D',
    'x=y',
    '*',
    '\\/',
  ),
  *(
    'http://a.b/c',
    'a@b.com',
    '#tag',
    '@me',
    '<b>',
    '<br/>',
    '<a b="c">',
    'C++',
    'F#',
    '{c}',
    '[b]',
  ),
  *(
    '...',
    '. . .',
    '…',
    '--',
    '---',
    '----',
    '—',
    '–',
    '’s',
    '“',
    '”',
    '«',
    '‹',
    '\u0091',
    '\u0093',
  ),
  *(':-)', ';)', '^_^', '(a)', '"a"', "''", '``', '!', '?!', ',', ';', ':', '|', '~', '_', '__'),
  *(
    '\u00ad',
    'co\u00adop',
    'é',
    'ß',
    '日本',
    '😀',
    '\u200b',
    '™',
    '§',
    '\u00a0',
    '\u3000',
    'İ',
    'ΣΑΣ',
  ),
  *('a', 'Dog', 'co-op', 'anti-', 'e-mail', 'b/c', 'Ave', 'st', 'atty', 'is'),
)


def random_captions(count: int) -> list[str]:
  rng = random.Random(0)
  pieces = [
    ''.join(rng.choice(PIECES) + rng.choice(('', ' ', ' ', '.')) for _ in range(rng.randint(1, 9)))
    for _ in range(count)
  ]
  letters = string.punctuation + string.digits + 'abstuABS  '
  return pieces + [''.join(rng.choices(letters, k=rng.randint(1, 40))) for _ in range(count)]


def test_tokens_equal_the_golden_ones(golden):
  for expected in golden.values():
    captions = [*expected['hyps'].values(), *sum(expected['refs'].values(), [])]
    tokens = expected['tokenised']
    expected_tokens = [*tokens['hyps'].values(), *sum(tokens['refs'].values(), [])]
    assert ptb_tokenizer.tokenize(captions, program='python') == expected_tokens


def test_random_captions_have_the_tokens_of_the_program():
  captions = [*PIECES, *random_captions(2000)]
  expected = ptb_tokenizer.tokenize(captions, program='java')
  for caption, python, java in zip(
    captions, ptb_tokenizer.tokenize(captions, program='python'), expected, strict=True
  ):
    assert python == java, caption


def test_a_word_of_letters_does_not_depend_on_what_follows():
  """What the cache of words relies on: after a word and a space only the word is a token."""
  tables = ptb_tables.automaton()

  def following(state: int, character: str) -> int:
    return tables.following[tables.rows[state] + tables.classes[ord(character)]]

  states, todo = {}, [(2, '')]
  while todo:
    state, word = todo.pop()
    if state >= 0 and state not in states:
      states[state] = word
      todo += [(following(state, c), word + c) for c in string.ascii_lowercase]
  assert len(states) > 100
  for state, word in states.items():
    for space in ' \n' if word else '':
      after = following(state, space)
      if after >= 0:  # an automaton that looks one character ahead
        assert all(following(after, chr(c)) < 0 for c in range(0x3000)), word
        if tables.accepts[after]:
          assert ptb_lexer.lex([f'{word}{space.strip()} x.'])[0][0] == word


def test_the_next_caption_is_read_ahead():
  # An abbreviation's period ends the sentence where the next word starts another.
  assert ptb_lexer.lex(['in the U.S.', 'The dog']) != ptb_lexer.lex(['in the U.S.', 'dogs'])
  captions = ['in the U.S.', 'The dog', 'in the U.S.', 'dogs', 'a ;)', 'b']
  expected = ptb_tokenizer.tokenize(captions, program='java')
  assert ptb_tokenizer.tokenize(captions, program='python') == expected


def test_a_tag_ends_with_its_line():
  assert ptb_lexer.lex(['a <b', 'c> d'])[1] == ['c', '>', 'd']


@pytest.mark.parametrize('captions', [[], ['', ' ', '.']])
def test_captions_without_words(captions):
  assert ptb_tokenizer.tokenize(captions, program='python') == [''] * len(captions)
