"""Markdown: tables, and the block of a page that a command writes again."""

import pathlib
import re
from collections.abc import Collection, Sequence

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output, write_text


def table(rows: Sequence[Sequence[str]], left: Collection[int]) -> str:
  """Rows as a table whose columns are aligned in the source, too.

  Args:
    rows: of cells; the first row has the headings.
    left: indices of the columns of text; the others are numbers, which end at the right.
  """
  rows = [[_one_line(cell) for cell in row] for row in rows]
  widths = [max(2, *(len(row[i]) for row in rows)) for i in range(len(rows[0]))]
  rule = ['-' * w if i in left else '-' * (w - 1) + ':' for i, w in enumerate(widths)]
  lines = []
  for row in (rows[0], rule, *rows[1:]):
    cells = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))]
    lines.append(f'| {" | ".join(cells)} |')
  return '\n'.join(lines)


def escaped(text: str) -> str:
  """A text from data, such as a caption, as Markdown shows it unchanged."""
  return re.sub(r'[\\`*\[\]<>|]|(?<!\w)_|_(?!\w)', r'\\\g<0>', text)


def _one_line(cell: str) -> str:
  return ' '.join(cell.split())


def split_page(text: str, begin: str, end: str) -> tuple[str, str, str]:
  """The parts of a page before, between and after its two marks, each a line of its own.

  Raises:
    UserError: the page does not have the two marks once each, in this order.
  """
  before, _, rest = text.partition(begin)
  block, found_end, after = rest.partition(end)
  if not found_end or text.count(begin) > 1 or text.count(end) > 1:
    raise UserError(
      f'the page must have the line {begin} once and, below it, the line {end} once; '
      f'it has {text.count(begin)} and {text.count(end)} of them'
    )
  return before, block, after


def marks(name: str) -> tuple[str, str]:
  """The marks around the block that a command writes."""
  return f'<!-- {name} -->', f'<!-- {name} end -->'


def check_page(flag: str, page: str, name: str) -> None:
  """Checks that a block can be written; call it before the work starts.

  Args:
    flag: with the page, for the message.
    page: the file; it need not exist.
    name: of the block.

  Raises:
    UserError: the file can't be written, or has no marks of this name.
  """
  check_output(flag, page)
  path = pathlib.Path(page)
  try:
    if path.exists():
      split_page(path.read_text(encoding='utf-8'), *marks(name))
  except UserError as error:
    raise UserError(f'{flag}={page}: {error}') from None


def write_block(page: str, name: str, block: str, new_page: str = '') -> None:
  """Replaces what is between the marks of a page.

  Args:
    page: the file.
    name: of the block.
    block: the new text.
    new_page: the contents of a page that doesn't exist, with the marks; '': the marks alone.

  Raises:
    UserError: the page lacks the marks.
  """
  path = pathlib.Path(page)
  begin, end = marks(name)
  new_page = new_page or empty_block(name)
  text = path.read_text(encoding='utf-8') if path.exists() else new_page
  before, _, after = split_page(text, begin, end)
  write_text(path, f'{before}{begin}\n\n{block}\n\n{end}{after}')


def empty_block(name: str) -> str:
  """The marks of a block with nothing between."""
  return '\n'.join((*marks(name), ''))
