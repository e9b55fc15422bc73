"""Parsing flags: what is wrong with them is told in a line, with the config keys that are near."""

import difflib
import re
import sys

from absl import flags
from ml_collections import ConfigDict


def parse(argv: list[str]) -> list[str]:
  """Parses all flags; returns the other arguments.

  Exits with 1 where they can't be parsed, with 0 after --help.

  Args:
    argv: with the program's name in front.
  """
  try:
    rest = flags.FLAGS(argv)
    config = flags.FLAGS['config'].value
    if config is not None:
      config.seed  # noqa: B018  ml_collections tells of a missing file when the config is used
    return rest
  except SystemExit:  # after --help, which absl counts as a failure
    sys.exit(0)
  except OSError as error:
    sys.exit(f'error: --config: {_last_line(error)}')
  except flags.Error as error:
    # Errors in a config file come with a whole traceback, and what happened at its end.
    sys.exit('error: ' + re.sub(r'^[a-z_.]+ConfigError: ', '--config: ', _last_line(error)))
  except (AttributeError, KeyError, TypeError, ValueError):
    if not (problems := _unknown_keys(argv)):
      raise
    sys.exit(f'error: {"; ".join(problems)}')


# What int() and float() say, in words for those who don't write Python.
_PLAIN = {
  r"invalid literal for int\(\) with base 10: '.*'": 'not a whole number',
  r"could not convert string to float: '.*'": 'not a number',
}


def _last_line(error: Exception) -> str:
  line = str(error).strip().splitlines()[-1].strip()
  for words, plain in _PLAIN.items():
    line = re.sub(words, plain, line)
  return line


def _unknown_keys(argv: list[str]) -> list[str]:
  """What to say of each --config.KEY that the config file lacks."""
  text = '\n'.join(argv)
  files = re.findall(r'^--?config[=\n](.+)', text, re.MULTILINE)
  known = _keys(flags.FLAGS['config'].parser.parse(files[-1])) if files else []
  problems = []
  for key in re.findall(r'^--?(?:no)?config\.([^=\n]+)', text, re.MULTILINE):
    if not known or key in known:
      continue
    near = [k for k in known if k.rpartition('.')[2] == key.rpartition('.')[2]]
    near += [k for k in difflib.get_close_matches(key, known) if k not in near]
    hint = f'did you mean {" or ".join(near)}?' if near else 'configs/common.py explains them all'
    problems.append(f'--config.{key}: there is no such key; {hint}')
  return problems


def _keys(config: ConfigDict, prefix: str = '') -> list[str]:
  """Dotted names of all values and sections."""
  keys = []
  for key, value in config.items():
    keys.append(prefix + key)
    if isinstance(value, ConfigDict):
      keys += _keys(value, f'{prefix}{key}.')
  return keys
