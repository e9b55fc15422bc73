"""Reads files as text, lines, JSON, pickles or tables; errors name the file and the place."""

import codecs
import csv
import io
import json
import pathlib
from collections import Counter
from collections.abc import Iterator, Sequence

from vidcap_jax.errors import DataError, first_few
from vidcap_jax.features.plain_pickle import PickleError, load_plain


def read_text(path: pathlib.Path) -> str:
  """A UTF-8 file's text, without byte order mark.

  Raises:
    DataError: unreadable, or not UTF-8 (with the byte's position).
  """
  try:
    return path.read_bytes().decode('utf-8-sig')
  except OSError as error:
    raise DataError(f'{path}: cannot be read: {error.strerror}') from None
  except UnicodeDecodeError as error:
    wide = error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    raise DataError(
      f'{path}: not UTF-8 text at byte {error.start}; convert it to UTF-8, '
      f'as with iconv -f {"UTF-16" if wide else "WINDOWS-1252"} -t UTF-8'
    ) from None


def read_lines(path: pathlib.Path) -> Iterator[tuple[str, str]]:
  """The lines that are not blank, each after its place (``line 3``).

  Raises:
    DataError: as ``read_text``.
  """
  text = read_text(path)
  # Not splitlines(): captions may hold characters that it takes for line breaks, such as U+2028.
  line_break = '\n' if '\n' in text else '\r'
  for number, line in enumerate(text.split(line_break), 1):
    if line.strip():
      yield f'line {number}', line.rstrip('\r')


def read_json(path: pathlib.Path):
  """A JSON file's contents.

  Raises:
    DataError: not JSON, or an object with a key that occurs twice (json would keep the last).
  """
  text = read_text(path)
  try:
    return parse_json(text)
  except ValueError as error:
    raise DataError(f'{path}: not a JSON file: {error}') from None


def read_pickle(path: pathlib.Path):
  """The containers, numbers and texts in a pickle, also of Python 2, without running code in it.

  Raises:
    DataError: unreadable, damaged, nested too deep, or it would run code.
  """
  try:
    with path.open('rb') as file:
      return _decoded(load_plain(file), 8)
  except OSError as error:
    raise DataError(f'{path}: cannot be read: {error.strerror}') from None
  except (PickleError, UnicodeDecodeError) as error:
    raise DataError(f'{path}: {error}') from None


def _decoded(value, depth: int):
  """The value with Python 2's texts, which are bytes in a pickle, as texts."""
  if not depth:  # A container that holds itself ends here.
    raise PickleError('containers nested too deep')
  if isinstance(value, bytes):
    return value.decode()
  if isinstance(value, list | tuple):
    return [_decoded(item, depth - 1) for item in value]
  if not isinstance(value, dict):
    return value
  decoded = {
    key.decode() if isinstance(key, bytes) else key: _decoded(v, depth - 1)
    for key, v in dict.items(value)
  }
  if len(decoded) < len(value):
    raise PickleError('two keys of the same name')
  return decoded


def parse_json(text: str):
  """Parses JSON; ValueError if it isn't JSON, is nested too deep, or has a key twice."""
  try:
    return json.loads(text, object_pairs_hook=_object)
  except RecursionError:
    raise ValueError('nested too deep') from None


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
  parsed = dict(pairs)
  if len(parsed) < len(pairs):
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    keys = 'a key occurs' if len(twice) == 1 else f'{len(twice)} keys occur'
    raise ValueError(f'{keys} twice in one object: {first_few(twice)}')
  return parsed


def read_table(
  path: pathlib.Path, columns: Sequence[Sequence[str]], delimiter: str | None = None
) -> Iterator[tuple[str, dict[str, str] | str]]:
  """The rows of a table with a header.

  Args:
    path: the file.
    columns: groups of names; the header must have a name of each group.
    delimiter: between fields; by default a tab for .tsv and a comma for any other file.

  Yields:
    The place, and the row by column or what is wrong with it.

  Raises:
    DataError: no usable header, or text that is not CSV, such as a quote that is never closed.
  """
  delimiter = delimiter or ('\t' if path.suffix.lower() == '.tsv' else ',')
  text = io.StringIO(read_text(path), newline='')
  reader = csv.DictReader(text, delimiter=delimiter, strict=True)
  try:
    header = [(name or '').strip() for name in reader.fieldnames or ()]
    _check_header(path, header, columns)
    reader.fieldnames = header
    for row in reader:
      fits = None not in row and None not in row.values()
      yield (
        f'line {reader.line_num}',
        row if fits else f'not {len(header)} fields, as the header has; quote fields with commas',
      )
  except csv.Error as error:
    raise DataError(
      f'{path}: line {reader.line_num + 1}: not CSV: {error}; '
      'is each quote closed, and each quote inside a field doubled?'
    ) from None


def _check_header(
  path: pathlib.Path, header: Sequence[str], columns: Sequence[Sequence[str]]
) -> None:
  for names in columns:
    if not set(names) & set(header):
      raise DataError(
        f'{path}: the first line must name the columns, one of them {" or ".join(names)}; '
        f'found: {", ".join(header) or "nothing"}{_case_hint(names, header)}'
      )
  if len(set(header)) != len(header):
    raise DataError(f'{path}: a column name occurs twice: {", ".join(header)}')


def _case_hint(names: Sequence[str], header: Sequence[str]) -> str:
  """Names a column that would be one of ``names`` but for capital letters, for a message."""
  by_lower_case = {name.casefold(): name for name in names}
  for column in header:
    if name := by_lower_case.get(column.casefold()):
      return f'; capital letters count: write {name} in place of {column}'
  return ''


def malformed(path: pathlib.Path, problems: Sequence[tuple[str, str]]) -> DataError:
  """One error for a file's problems, pairs of a place and what is wrong."""
  items = [f'{where}: {what}' for where, what in problems]
  return DataError(f'{path}: {first_few(items, "; ")}', items)
