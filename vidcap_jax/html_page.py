"""HTML pages in one file, with styles and pictures inside, that open from disk without network.

Text is escaped by ``text``; should any not be, the page's policy still lets nothing run or load but
what the page was made with.
"""

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence

STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1b1f24; margin: 2em auto; padding: 0 1.5em;
  max-width: 1120px; }
h1 { font-size: 1.7em; margin-bottom: 0; } h1 small { color: #656d76; font-weight: normal; }
h2 { font-size: 1.2em; border-bottom: 1px solid #d0d7de; padding-bottom: .2em; margin-top: 2em; }
h3 { font-size: 1em; margin: 1.4em 0 .2em; }
p, li { overflow-wrap: anywhere; } p { margin: .3em 0; } .small { color: #656d76; font-size: 12px; }
ul { margin: .3em 0; padding-left: 1.3em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .8em; text-align: right; border-bottom: 1px solid #eaeef2;
  white-space: nowrap; }
th { color: #656d76; font-weight: 600; } th:first-child, td:first-child { text-align: left;
  padding-left: 0; }
figure { margin: .4em 0; } figcaption { font-weight: 600; font-size: 13px; }
"""


def text(value: str) -> str:
  """Text with the characters that HTML reads as its own escaped, quotes too."""
  return html.escape(value, quote=True)


def bullets(lines: Iterable[str]) -> str:
  """A list of texts."""
  return '<ul>' + ''.join(f'<li>{text(line)}</li>' for line in lines) + '</ul>'


def table(rows: Sequence[Sequence[str]]) -> str:
  """A table of texts; the first row is its head."""
  head, *others = rows
  cells = ''.join(f'<th>{text(cell)}</th>' for cell in head)
  lines = [f'<tr>{cells}</tr>']
  for row in others:
    lines.append('<tr>' + ''.join(f'<td>{text(cell)}</td>' for cell in row) + '</tr>')
  return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def document(
  title: str, body: Iterable[str], style: str = '', script: str = '', *, files: bool = False
) -> str:
  """A page.

  Args:
    title: plain text.
    body: its parts as HTML; empty ones are left out.
    style: CSS besides ``STYLE``.
    script: JavaScript that runs at the end of the page.
    files: whether pictures, video and sound are loaded from files beside the page.
  """
  beside = " 'self' file:" if files else ''
  policy = f"default-src 'none'; img-src data:{beside}; style-src 'unsafe-inline'"
  if files:
    policy += f'; media-src{beside}'
  if script:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy += f"; script-src 'sha256-{digest}'"
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    f'<title>{text(title)}</title>\n<style>{STYLE}{style}</style>\n</head>\n<body>\n'
    + '\n'.join(filter(None, body))
    + (f'\n<script>{script}</script>' if script else '')
    + '\n</body>\n</html>\n'
  )
