"""Parses the flags; an error is one line and suggests config keys with similar names."""

import re
import sys

from absl import flags

from vidcap_jax import config_files
from vidcap_jax.cli import pytorch_names
from vidcap_jax.cli.flags import CONFIG, MODE, given_keys
from vidcap_jax.config_keys import all_keys, unknown_key
from vidcap_jax.errors import UserError
from vidcap_jax.training import section_defaults


def parse(argv: list[str]) -> list[str]:
  """Parses all flags; returns the other arguments.

  Exits with 1 where they can't be parsed, with 0 after --help.

  Args:
    argv: with the program's name in front.
  """
  try:
    return flags.FLAGS(argv)
  except SystemExit:  # after --help, which absl counts as a failure
    sys.exit(0)
  except UserError as error:
    sys.exit(f'error: {error}')
  except flags.UnrecognizedFlagError as error:
    sys.exit(f'error: {_unknown_flag(error)}')
  except flags.Error as error:
    # absl raises its own error for one of the config file.
    own = isinstance(error.__context__, UserError)
    sys.exit(f'error: {error.__context__ if own else _last_line(error)}')
  except (AttributeError, KeyError, TypeError, ValueError):
    if not (problems := _unknown_keys(argv)):
      raise
    sys.exit(f'error: {"; ".join(problems)}')


# Messages of int() and float(), in words for users who don't write Python.
_PLAIN = {
  r"invalid literal for int\(\) with base 10: '.*'": 'not a whole number',
  r"could not convert string to float: '.*'": 'not a number',
  r"\('Non-boolean argument to boolean flag', '.*'\)": 'neither true nor false',
}


def _last_line(error: Exception) -> str:
  line = str(error).strip().splitlines()[-1].strip()
  for words, plain in _PLAIN.items():
    line = re.sub(words, plain, line)
  return line


def _unknown_keys(argv: list[str]) -> list[str]:
  """A message for each --config.KEY that the config file lacks."""
  files = re.findall(r'^--?config[=\n](.+)', '\n'.join(argv), re.MULTILINE)
  if not files:
    return []
  config = config_files.load_config(files[-1])
  known = list(all_keys(config))
  sections = section_defaults.of_sections(config, given_keys(sys.argv))
  for section, defaults in sections.items():
    known += [key for key in all_keys(defaults, f'{section}.') if key not in known]
  names = {key.rpartition('.')[2] for key in known}
  problems = []
  for key in given_keys(argv):
    meant = pytorch_names.key_of(key)
    if meant in known and key.rpartition('.')[2] not in names:
      problems.append(unknown_key(f'--config.{key}', meant, [meant]))
    elif key not in known:
      problems.append(unknown_key(f'--config.{key}', key, known))
  return problems


def _unknown_flag(error: flags.UnrecognizedFlagError) -> str:
  """The message about a flag that does not exist, with what to use in its place."""
  config, mode = flags.FLAGS[CONFIG.name].value, str(flags.FLAGS[MODE.name].value)
  value = error.flagvalue.partition('=')[2]  # absl has the whole argument there
  instead = pytorch_names.instead_of(error.flagname, value, mode, list(all_keys(config or {})))
  return f'there is no flag --{error.flagname}; {instead}' if instead else _last_line(error)
