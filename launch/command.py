"""The command that launchers start: what stands after -- is handed on word for word."""

import argparse
import shlex
import sys
from collections.abc import Sequence

# main.py's exit codes after which the same command goes on (docs/distributed.md): after SIGTERM,
# with everything saved; where another process was lost; and where the runtime saw that first.
PREEMPTED, LOST, ABORTED = 143, 75, 134
# What a launcher or the cluster says of a process.
OWN = ('coordinator', 'num_processes', 'process_id')


def parser(module: str, doc: str | None) -> argparse.ArgumentParser:
  """A parser whose help is a launcher's docstring, with the flag that all launchers have."""
  made = argparse.ArgumentParser(
    prog=f'python -m {module}',
    description=doc,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    usage='%(prog)s [flags] -- flags of vidcap_jax.main',
    allow_abbrev=False,
  )
  made.add_argument('--dry_run', action='store_true', help='print what would be run, and end')
  return made


def parse(
  made: argparse.ArgumentParser, argv: Sequence[str] | None
) -> tuple[argparse.Namespace, list[str]]:
  """A launcher's own flags, and the arguments after -- for vidcap_jax.main.

  Exits with 2 and a message if they tell processes apart, which is what launchers do.
  """
  argv = sys.argv[1:] if argv is None else list(argv)
  own, rest = argv, []
  if '--' in argv:
    own, rest = argv[: argv.index('--')], argv[argv.index('--') + 1 :]
  flags = made.parse_args(own)
  for argument in rest:
    if (name := argument.lstrip('-').partition('=')[0]) in OWN and argument.startswith('-'):
      made.error(f'--{name} is what this launcher or the cluster says; leave it out')
  return flags, rest


def require(made: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
  """Exits with 2 and a message if there are no arguments for vidcap_jax.main."""
  if not arguments:
    made.error('nothing after --; give the flags of vidcap_jax.main there, as in the examples')


def training(arguments: Sequence[str], python: str = 'python') -> list[str]:
  """The command that trains, evaluates or captions."""
  return [python, '-m', 'vidcap_jax.main', *arguments]


def shell(words: Sequence[str]) -> str:
  """A command as a line that any POSIX shell reads as these very words."""
  return shlex.join(words)
