r"""Flickr8k and Flickr30k: a picture's file name and a caption in each line.

Three forms, told apart by the first line:

* ``NAME.jpg#0\tcaption``, as in Flickr8k.token.txt and results_20130124.token,
* ``NAME.jpg,caption``, a CSV file with or without the header ``image,caption``, where only a
  caption that begins with a quote is quoted,
* ``NAME.jpg| 0| caption``, with bars or commas, with or without the header ``image_name|
  comment_number| comment``.

A picture's id is its file name, as the lists of the splits have it. The split may be in the file's
name.
"""

import csv
import pathlib
import re
from collections.abc import Iterator, Sequence

from vidcap_jax.annotations.files import read_lines
from vidcap_jax.annotations.model import Annotations, Entry, Located, split_in_name

# Some names in Flickr8k have .jpg.1.
_NAME = r'(?P<name>[^\t,|#]+\.(?:jpe?g|png|webp)(?:\.[0-9]+)?)'
_TOKENS = re.compile(r'(?P<name>[^\t]+?)(?:#[0-9]+)?\t(?P<caption>.*)')
_PAIRS = re.compile(_NAME + r',(?P<caption>.*)', re.IGNORECASE)
# In Flickr30k's file one line lacks the second bar.
_TRIPLES = re.compile(_NAME + r'\s*[,|]\s*[0-9]+\s*[,|]?\s*(?P<caption>.*)', re.IGNORECASE)
_FIRST_TRIPLE = re.compile(_NAME + r'\s*[,|]\s*[0-9]+\s*[,|]', re.IGNORECASE)
_FIRST_TOKEN = re.compile(_NAME + r'#[0-9]+\t', re.IGNORECASE)
_HEADERS = (('image', 'caption'), ('image_name', 'comment_number', 'comment'))


def read(paths: Sequence[pathlib.Path], annotations: Annotations) -> None:
  """Reads one or more files.

  Raises:
    DataError: lines of none of these forms, named by number.
  """
  for path in paths:
    annotations.add_file(path, entries(path))


def is_flickr(first_line: str) -> bool:
  """Whether the first line of a file is one that no other form has."""
  return bool(_columns(first_line) or _FIRST_TOKEN.match(first_line) or _PAIRS.match(first_line))


def _columns(line: str) -> int:
  """The number of columns that a header names; 0 for a line that is no header."""
  names = tuple(part.strip().lower() for part in re.split(r'[,|]', line))
  return len(names) if names in _HEADERS else 0


def entries(path: pathlib.Path) -> Iterator[Located]:
  """The entries of a file."""
  lines = list(read_lines(path))
  split = split_in_name(path)
  first = lines[0][1] if lines else ''
  form, pattern = _form(first)
  for where, line in lines[1:] if _columns(first) else lines:
    match = pattern.fullmatch(line)
    if match is None:
      yield where, f'not "{form}": {line[:60]!r}'
      continue
    caption = match['caption'] if pattern is _TOKENS else _unquoted(match['caption'])
    if caption is None:
      yield where, f'a caption that begins with a quote and does not end with it: {line[:60]!r}'
    else:
      yield where, Entry(match['name'], caption, split)


def _form(first_line: str) -> tuple[str, re.Pattern[str]]:
  """The form of a file, in words and as a pattern of its lines."""
  if _columns(first_line) == 3 or _FIRST_TRIPLE.match(first_line):
    return 'NAME.jpg, NUMBER, caption', _TRIPLES
  if _columns(first_line) == 2 or _PAIRS.match(first_line):
    return 'NAME.jpg,caption', _PAIRS
  return 'NAME.jpg#NUMBER<TAB>caption', _TOKENS


def _unquoted(caption: str) -> str | None:
  """A caption without the quotes around it; None if it begins with a quote and is not CSV."""
  if not caption.lstrip().startswith('"'):
    return caption
  try:
    ((field,),) = csv.reader([caption.strip()], strict=True)
  except (csv.Error, ValueError):
    return None
  return field
