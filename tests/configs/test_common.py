"""Every key of the defaults has an explanation beside it."""

import inspect
import io
import tokenize

from ml_collections import ConfigDict

from configs import common


def explanations() -> dict[str, str]:
  """Key -> the comment at the end of its line, or the comment lines directly above it."""
  source = inspect.getsource(common.base)
  comments, code = {}, {}
  for token in tokenize.generate_tokens(io.StringIO(source).readline):
    if token.type == tokenize.COMMENT:
      comments[token.start[0]] = token.string.removeprefix('#').strip()
    elif token.type == tokenize.OP and token.string == '=' and token.line.startswith('  c.'):
      code[token.start[0]] = token.line.split('=')[0].strip().removeprefix('c.')
  found = {}
  for line, key in code.items():
    above = []
    while (earlier := line - 1 - len(above)) in comments and earlier not in code:
      above.insert(0, comments[earlier])
    trailing = [comments[line]] if line in comments else []
    assert not (above and trailing), f'{key} has a comment both above it and beside it'
    found[key] = ' '.join(above + trailing)
  return found


def keys(section: ConfigDict, prefix: str = '') -> list[str]:
  found = []
  for name, value in section.items():
    found.append(f'{prefix}{name}')
    if isinstance(value, ConfigDict):
      found += keys(value, f'{prefix}{name}.')
  return found


def test_every_key_is_explained():
  explained = explanations()
  # Their keys are stages, streams, and settings of a model or an objective.
  open_sections = ('stages.', 'data.recipe.streams.', 'model.', 'objective.')
  expected = [key for key in keys(common.base()) if not key.startswith(open_sections)]
  assert sorted(explained) == sorted(expected)
  assert not [key for key, text in explained.items() if not text]
