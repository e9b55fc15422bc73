"""What launchers share: their parser, and the command that they start.

The arguments after -- are passed on to vidcap_jax.main unchanged.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence

# Exit codes of vidcap_jax.main after which the same command resumes (docs/distributed.md): it saved
# after SIGTERM; another process was lost; JAX's runtime found that first.
PREEMPTED, LOST, ABORTED = 143, 75, 134
# Flags of vidcap_jax.main that the launcher or the cluster sets.
RESERVED = ('coordinator', 'num_processes', 'process_id')


def make_parser(module: str, doc: str | None) -> argparse.ArgumentParser:
  """A parser with --dry_run, which all launchers have; ``doc`` is its help."""
  parser = argparse.ArgumentParser(
    prog=f'python -m {module}',
    description=doc,
    formatter_class=argparse.RawDescriptionHelpFormatter,
    usage='%(prog)s [flags] -- flags of vidcap_jax.main',
    allow_abbrev=False,
  )
  parser.add_argument('--dry_run', action='store_true', help='only print what would be run')
  return parser


def parse(
  parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> tuple[argparse.Namespace, list[str]]:
  """Splits a command line into the launcher's flags and the arguments for vidcap_jax.main.

  Exits with 2 and a message if the arguments contain a flag that the launcher sets.
  """
  argv = sys.argv[1:] if argv is None else list(argv)
  end = argv.index('--') if '--' in argv else len(argv)
  flags, arguments = parser.parse_args(argv[:end]), argv[end + 1 :]
  for argument in arguments:
    name = argument.lstrip('-').partition('=')[0]
    if argument.startswith('-') and name in RESERVED:
      parser.error(f'--{name} is set by this launcher or the cluster; leave it out')
  return flags, arguments


def require(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> None:
  """Exits with 2 and a message if there are no arguments for vidcap_jax.main."""
  if not arguments:
    parser.error('nothing after --; give the flags of vidcap_jax.main there, as in --help')


def main_command(arguments: Sequence[str], python: str = 'python') -> list[str]:
  """The command that runs vidcap_jax.main."""
  return [python, '-m', 'vidcap_jax.main', *arguments]


def shell(words: Sequence[str]) -> str:
  """A command as a line for any POSIX shell, quoted where needed."""
  return shlex.join(words)
