"""How the user started a command, for usage lines and messages."""

import sys

COMMAND = 'vidcap'


def program_name(module: str) -> str:
  """What starts a module: 'vidcap build', or 'python -m data_prep.build'.

  The command ``vidcap`` sets ``sys.argv[0]`` to its own name and the subcommand's before it runs a
  module.
  """
  return sys.argv[0] if started_by_vidcap() else f'python -m {module}'


def command_of(module: str, mode: str = '') -> str:
  """How the user would start another module: 'vidcap inspect', or 'python -m data_prep.inspect'.

  Args:
    module: of a subcommand, of which the last part is the subcommand's name.
    mode: of ``vidcap_jax.main``, in place of it: 'vidcap predict', or 'python -m vidcap_jax.main
      --mode=predict'.
  """
  if started_by_vidcap():
    return f'{COMMAND} {mode or module.rpartition(".")[2]}'
  return f'python -m {module} --mode={mode}' if mode else f'python -m {module}'


def started_by_vidcap() -> bool:
  """Whether the command ``vidcap`` runs, not a module by ``python -m``."""
  return sys.argv[0].startswith(f'{COMMAND} ')
