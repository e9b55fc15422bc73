"""What each key of a config means, from comments in its source and from docstrings."""

import inspect
import io
import re
import tokenize


def from_comments(source: str) -> dict[str, str]:
  """Dotted key -> explanation, from the source of ``base`` in ``configs/common.py``.

  The explanation of a line ``c.KEY = VALUE`` is the comment at its end or the comment lines
  directly above it. Keys are in the order of the source.
  """
  comments: dict[int, str] = {}
  keys: dict[int, str] = {}
  for token in tokenize.generate_tokens(io.StringIO(source).readline):
    if token.type == tokenize.COMMENT:
      comments[token.start[0]] = token.string.removeprefix('#').strip()
    elif token.type == tokenize.OP and token.string == '=' and token.line.startswith('  c.'):
      keys[token.start[0]] = token.line.split('=')[0].strip().removeprefix('c.')
  explanations = {}
  for line, key in keys.items():
    above: list[str] = []
    while (earlier := line - 1 - len(above)) in comments and earlier not in keys:
      above.insert(0, comments[earlier])
    explanations[key] = ' '.join([*above, *([comments[line]] if line in comments else [])])
  return explanations


def from_docstring(documented: type) -> dict[str, str]:
  """Name -> explanation, from the section ``Attributes:`` of a class's docstring."""
  text = inspect.getdoc(documented) or ''
  _, _, section = text.partition('Attributes:\n')
  explanations: dict[str, str] = {}
  names: list[str] = []
  for line in section.splitlines():
    if line and not line.startswith(' '):
      break  # the next section
    if entry := re.match(r' {2}(\w+(?:, \w+)*): (.*)', line):
      names = entry[1].split(', ')
      explanations |= dict.fromkeys(names, entry[2])
    elif line.strip():
      explanations |= {name: f'{explanations[name]} {line.strip()}' for name in names}
  return explanations
