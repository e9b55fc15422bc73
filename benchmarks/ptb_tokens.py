"""Checks the PTB tokeniser in Python against the Java program.

  python -m benchmarks.ptb_tokens [--captions=FILE …] [--strings=100000] [--seed=0]

Compares the captions of annotation files, if any are given, and strings drawn from a seed: a third
have the characters of the captions and of a list of texts that the tokeniser has rules for, a third
are of punctuation, digits and letters, and a third join such texts. Texts that differ are printed.
"""

import argparse
import random
import string
import sys
from collections.abc import Sequence

from benchmarks import Row, add_json, report
from vidcap_jax import command_errors
from vidcap_jax.annotations import caption_files
from vidcap_jax.evaluation import ptb_tokenizer

# Contractions, abbreviations, numbers, currencies, links, tags, dashes, quotes, smileys, symbols,
# and letters outside ASCII.
TEXTS = (
  *("don't", 'cannot', 'gonna', "'tis", "o'clock", "rock'n'roll", "d'ye", "y'all", "'em", "n't"),
  *('mr.', 'u.s.', 'e.g.', 'p.m.', 'ph.d.', 'Inc.', 'No.', 'St.', 'Jan.', 'A.B.', 'a.', 'etc.'),
  *('(415) 555-1234', '1 1/2', '½', '1,000.5', '10:30', '12/12/2012', '-5', '+3', "'90s", '1st'),
  *('.5', '€5', '£3', '¢', 'US$', '$5m', '%', 'AT&T', '&amp;', '&lt;', '&quot;', 'R&D', 'x=y'),
  *('*', '**', '\\/', 'http://a.b/c', 'a@b.com', '#tag', '@me', '<b>', '<br/>', '</i>', 'C++'),
  *('F#', '{c}', '[b]', '(a)', '...', '…', '--', '---', '----', '—', '–', '’', '‘', '“', '”', '«'),
  *('»', '‹', '›', "''", '``', '"', "'", '`', '!', '?!', ',', ';', ':', ':-)', ';)', '^_^', '|'),
  *('~', '_', '__', 'é', 'ß', '日本', '😀', '™', '§', 'a', 'I', 'Dog', 'co-op', 'anti-', 'e-mail'),
  *('b/c', 'Ave', 'Col.', 'atty'),
)
JOINTS = ('', ' ', ' ', '.', ',', '\u00a0', '\u00ad', '\u200b', '\u3000', '\t')
MOST_SHOWN = 20


def random_strings(count: int, captions: Sequence[str], seed: int) -> list[str]:
  """Strings to tokenise; see the module's docstring."""
  rng = random.Random(seed)
  characters = sorted(set(''.join((*captions, *TEXTS, *JOINTS))))
  letters = string.punctuation + string.digits + 'abcdefgstuABS  '
  kinds = (
    lambda: ''.join(rng.choices(characters, k=rng.randint(1, 30))),
    lambda: ''.join(rng.choices(letters, k=rng.randint(1, 40))),
    lambda: ''.join(rng.choice(TEXTS) + rng.choice(JOINTS) for _ in range(rng.randint(1, 10))),
  )
  return [kinds[i % 3]() for i in range(count)]


def different(texts: Sequence[str]) -> list[tuple[str, str, str]]:
  """The texts whose tokens differ, with those of Java and of Python.

  Raises:
    MetricError: there is no Java, or it failed.
  """
  java, python = (ptb_tokenizer.tokenize(texts, program=p) for p in ('java', 'python'))
  return [found for found in zip(texts, java, python, strict=True) if found[1] != found[2]]


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--captions', action='append', default=[], metavar='FILE', help='repeatable')
  parser.add_argument('--strings', type=int, default=100_000, metavar='N')
  parser.add_argument('--seed', type=int, default=0)
  add_json(parser)
  options = parser.parse_args(arguments)
  captions = [
    caption
    for path in options.captions
    for video in caption_files.read_references(path).values()
    for caption in video
  ]
  sets = {'captions': captions} if captions else {}
  sets['random strings'] = random_strings(options.strings, captions, options.seed)
  rows = []
  for name, texts in sets.items():
    found = different(texts)
    for text, java, python in found[:MOST_SHOWN]:
      print(f'{text!r}: {java!r} by Java, {python!r} by Python')
    rows.append(Row(f'{len(texts)} {name}, different', len(found), goal=0, met=not found))
  if not report(rows, options.json):
    sys.exit('error: some tokens differ')


if __name__ == '__main__':
  main()
