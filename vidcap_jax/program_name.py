"""How the user started a command, for usage lines and messages."""

import re
import sys

COMMAND = 'vidcap'
# What ``python -m`` runs -> the subcommand.
_SUBCOMMANDS = {
  r'vidcap_jax\.main --mode=(\w+)': r'\1',
  r'vidcap_jax\.main\b': 'train',
  r'data_prep\.(build|extract|inspect)\b': r'\1',
  r'data_prep\.import_checkpoint\b': 'import',
  r'vidcap_jax\.evaluation\.metrics\b': 'score',
  r'vidcap_jax\.serving\.command\b': 'serve',
  r'vidcap_jax\.reporting\.command\b': 'report',
  r'vidcap_jax\.studies\.tables\b': 'tables',
  r'vidcap_jax\.studies\.(\w+)': r'studies \1',
}


def program_name(module: str) -> str:
  """What starts a module: 'vidcap build', or 'python -m data_prep.build'.

  The command ``vidcap`` sets ``sys.argv[0]`` to its own name and the subcommand's before it runs a
  module.
  """
  return sys.argv[0] if started_by_vidcap() else f'python -m {module}'


def as_typed(text: str) -> str:
  """A text in which commands have the form that the user typed.

  Args:
    text: with commands such as ``python -m vidcap_jax.main --mode=predict``, which ``vidcap`` turns
      into ``vidcap predict``.
  """
  if started_by_vidcap():
    for pattern, command in _SUBCOMMANDS.items():
      text = re.sub(rf'python -m {pattern}', f'{COMMAND} {command}', text)
  return text


def started_by_vidcap() -> bool:
  """Whether the command ``vidcap`` runs, not a module by ``python -m``."""
  return sys.argv[0].startswith(f'{COMMAND} ')
