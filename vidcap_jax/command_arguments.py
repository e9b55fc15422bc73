"""Parsing of a command's arguments by argparse, with near flags for a misspelt one."""

import argparse
import difflib
import re
import sys
from collections.abc import Container, Mapping, Sequence

from vidcap_jax.errors import UserError

_PATH = re.compile(r'\b(FILE|DIR|PAGE|PATH|RUN)\b')  # in the metavar of a flag that names files


def parse(
  parser: argparse.ArgumentParser,
  argv: Sequence[str] | None = None,
  may_be_empty: Container[str] = (),
) -> argparse.Namespace:
  """Parses a command's arguments; a misspelt flag ends the process with those like it.

  Args:
    parser: of the command. A flag names files if its metavar has FILE, DIR, PAGE, PATH or RUN.
    argv: the arguments; default: those of the command line.
    may_be_empty: flags that name files and whose value may be empty.

  Raises:
    UserError: a flag that names files has an empty value, as of an unset shell variable.
  """
  arguments = list(sys.argv[1:] if argv is None else argv)
  flags = _flags(parser, arguments)
  for argument, following in zip(arguments, [*arguments[1:], None], strict=False):
    if argument == '--':
      break
    if not re.match(r'--?[A-Za-z]\S*$|--?[A-Za-z][\w-]*=', argument):
      continue
    flag, equals, value = argument.partition('=')
    if not (action := _find(flag, flags, parser.allow_abbrev)):
      parser.error(_unknown(flag, flags))
    empty = equals and not value or not equals and following == ''
    if empty and flag not in may_be_empty:
      check_path(flag, action, '')
  return parser.parse_args(arguments)


def check_path(flag: str, action: argparse.Action, value: object) -> None:
  """Refuses an empty path.

  Args:
    flag: its name, for the message.
    action: what the parser knows of the flag.
    value: given for it.

  Raises:
    UserError: the flag names files, and the value is empty.
  """
  if value == '' and isinstance(action.metavar, str) and _PATH.search(action.metavar):
    otherwise = '' if action.required else f', or leave {flag} out'
    raise UserError(f'{flag}=: an empty path; give {action.metavar}{otherwise}')


def _flags(
  parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> Mapping[str, argparse.Action]:
  """Flag -> action, with the flags of the subcommand that the arguments name."""
  flags = dict(parser._option_string_actions)
  for action in parser._actions:
    if isinstance(action, argparse._SubParsersAction):
      for name in set(arguments) & set(action.choices):
        flags |= action.choices[name]._option_string_actions
  return flags


def _find(flag: str, flags: Mapping[str, argparse.Action], abbreviated: bool):
  """The action of a flag, or of one that begins so; None if there is none."""
  longer = (name for name in flags if abbreviated and name.startswith(flag))
  return flags.get(flag) or flags.get(next(longer, ''))


def _unknown(flag: str, flags: Mapping[str, argparse.Action]) -> str:
  near = difflib.get_close_matches(flag, [name for name in flags if name.startswith('--')])
  hint = f'did you mean {" or ".join(near)}?' if near else '--help lists the flags'
  return f'there is no flag {flag}; {hint}'
