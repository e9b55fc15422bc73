"""The command ``vidcap``: one name for every module that is a command.

  vidcap train --config=configs/quickstart.py:tiny --workdir=runs/first
  vidcap studies attention --checkpoint=runs/first --output=attention

A subcommand runs its module's ``main`` with the same flags and exit codes as ``python -m MODULE``,
so flags are defined in the modules alone. Nothing that takes long to import is imported before the
module is chosen. argparse's subparsers are not used: they need the parsers of all subcommands, and
the flags of training are absl's, which reads --config.KEY.
"""

import ast
import dataclasses
import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import shlex
import sys
import textwrap
from collections.abc import Sequence
from typing import NoReturn

from vidcap_jax import __version__, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.program_name import COMMAND

HELP = ('-h', '--help', '-help')


@dataclasses.dataclass(frozen=True)
class Command:
  """A subcommand.

  Attributes:
    name: as it is typed.
    module: the module that it runs.
    about: what it does, on one line.
    mode: the ``--mode`` of ``vidcap_jax.main``; '' for other modules.
  """

  name: str
  module: str
  about: str
  mode: str = ''


MAIN = 'vidcap_jax.main'
COMMANDS = (
  Command('train', MAIN, 'train a captioner; the same command resumes', 'train'),
  Command('evaluate', MAIN, 'caption and score a split of a data set', 'evaluate'),
  Command('predict', MAIN, 'caption video files, pictures or features', 'predict'),
  Command('serve', 'vidcap_jax.serving.command', 'a page and an HTTP API that caption'),
  Command('export', MAIN, 'write the decoder for programs without this project', 'export'),
  Command('compile', MAIN, 'memory and time of a run on chips that are not there', 'compile'),
  Command('card', MAIN, 'write a page about a run, a model card', 'card'),
  Command('build', 'data_prep.build', 'make a data set from captions and features'),
  Command('extract', 'data_prep.extract', 'make features from video files and pictures'),
  Command('import', 'data_prep.import_checkpoint', "make a run of a PyTorch project's checkpoint"),
  Command('inspect', 'data_prep.inspect', 'show a data set and what is odd in it'),
  Command('score', 'vidcap_jax.evaluation.metrics_command', 'score a captions file'),
  Command(
    'report', 'vidcap_jax.reporting.command', "pages about an evaluation's videos and scores"
  ),
  Command('tables', 'vidcap_jax.studies.tables', "the papers' tables beside your runs"),
  Command('studies', '', 'learning curves, attention and others; lists them'),
  Command('completion', 'vidcap_jax.cli.completion', 'tab completion for bash, zsh and fish'),
)
# Modules of vidcap_jax/studies/ that are commands; each has main and make_parser.
STUDIES = (
  *('animation', 'attention', 'cost', 'curves', 'examples', 'human', 'key_frames', 'mask_ratio'),
  *('results', 'schedules', 'spice', 'tables', 'word_classes'),
)


def main(argv: Sequence[str] | None = None) -> int:
  """Runs a subcommand.

  Args:
    argv: the arguments; default: those of the command line.

  Returns:
    The exit code of the subcommand's module; 1 for an unknown subcommand.
  """
  _import_from_current_folder()
  try:
    code = _run(*(list(sys.argv[1:] if argv is None else argv) or ['--help']))
    sys.stdout.flush()
    return code
  except BrokenPipeError:  # the reader has closed the pipe, e.g. head
    command_errors.discard_output()
    return command_errors.PIPE_CLOSED
  except UserError as error:
    print(f'error: {error}', file=sys.stderr)
    return 1
  except KeyboardInterrupt:
    return command_errors.INTERRUPTED


def run() -> NoReturn:
  """Runs the command line, and ends the process with its exit code."""
  code = main()
  if code == command_errors.INTERRUPTED:
    command_errors.end_at_once(code)
  sys.exit(code)


def _run(name: str, *arguments: str) -> int:
  """Runs a subcommand and returns its exit code."""
  asks_help = (*HELP, 'help')
  if name in asks_help and arguments and arguments[0] not in asks_help:  # vidcap help train
    return _run(*arguments, '--help')
  if name in asks_help:
    print(help_text())
  elif name == '--version':
    print(version_text())
  elif name == 'studies':
    return _run_study(arguments)
  elif name.startswith('-'):
    raise UserError(_flag_without_command((name, *arguments)))
  else:
    command = find_command(name)
    return _run_mode(command, arguments) if command.mode else _run_module(command, arguments)
  return 0


def help_text() -> str:
  """The subcommands with a line for each, and the first commands to try."""
  lines = '\n'.join(f'  {c.name:10}  {c.about}' for c in COMMANDS)
  return f"""\
usage: {COMMAND} COMMAND [flags]      {COMMAND} COMMAND --help explains a command

{lines}

first commands:
  {COMMAND} train --config=configs/quickstart.py:tiny --workdir=runs/first
  {COMMAND} predict --checkpoint=runs/first --inputs=runs/first/data/videos
  {COMMAND} build --format=csv --annotations=clips.csv --features=image=features/ --output=data/mine
  {COMMAND} train --config=configs/msrvtt1000.py --config.data.dir=data/mine --workdir=runs/mine"""


def version_text() -> str:
  """The versions of the project, of Python and of JAX, which is not imported."""
  try:
    jax = importlib.metadata.version('jax')
  except importlib.metadata.PackageNotFoundError:
    jax = 'not installed'
  return f'{COMMAND} {__version__} (Python {platform.python_version()}, jax {jax})'


def find_command(name: str) -> Command:
  """The subcommand of a name.

  Raises:
    UserError: there is none; the message has the near ones.
  """
  commands = {command.name: command for command in COMMANDS}
  if name not in commands:
    raise UserError(_unknown('command', name, tuple(commands), f'{COMMAND} --help'))
  return commands[name]


def studies() -> dict[str, str]:
  """Name -> what it does, of each study, from the first line of its module's docstring."""
  return {name: _first_line(f'vidcap_jax.studies.{name}') for name in STUDIES}


def _first_line(module: str) -> str:
  """The first line of a module's docstring, without importing the module and what it imports."""
  spec = importlib.util.find_spec(module)
  assert spec is not None
  assert spec.origin is not None
  tree = ast.parse(pathlib.Path(spec.origin).read_text(encoding='utf-8'))
  return (ast.get_docstring(tree) or '').partition('\n')[0]


def _run_study(arguments: Sequence[str]) -> int:
  """Runs a study by its name; without a name it lists all."""
  name, *others = arguments or ['--help']
  if name in HELP:
    print(f'usage: {COMMAND} studies NAME [flags]    {COMMAND} studies NAME --help\n')
    for study, about in studies().items():
      print(textwrap.fill(about, 100, initial_indent=f'  {study:14}', subsequent_indent=' ' * 16))
    return 0
  if name not in STUDIES:
    raise UserError(_unknown('study', name, STUDIES, f'{COMMAND} studies'))
  return _run_module(Command(f'studies {name}', f'vidcap_jax.studies.{name}', ''), others)


def _run_module(command: Command, arguments: Sequence[str]) -> int:
  """Runs the ``main`` of a module as ``python -m`` would."""
  sys.argv = [f'{COMMAND} {command.name}', *arguments]
  return importlib.import_module(command.module).main(arguments) or 0


def _run_mode(command: Command, arguments: Sequence[str]) -> int:
  """Runs a mode of ``vidcap_jax.main``, which ends the process with its exit code."""
  if any(argument.lstrip('-').partition('=')[0] == 'mode' for argument in arguments):
    raise UserError(f'{COMMAND} {command.name} sets --mode={command.mode} itself; leave --mode out')
  rest = [argument for argument in arguments if argument not in HELP]
  sys.argv = [f'{COMMAND} {command.name}', f'--mode={command.mode}', *rest]
  module = importlib.import_module(command.module)
  if len(rest) < len(arguments):
    mode_help = importlib.import_module('vidcap_jax.cli.mode_help')
    print(mode_help.text(command.mode))
    if command.mode != 'train' or not rest:
      return 0
    sys.argv.append('--print_config')  # the keys of the config that the flags name
    print()
  module.run()
  return 0


# Flag -> the subcommand that is suggested if none is given. Flags of one subcommand come first.
_COMMAND_OF_FLAG = {
  'inputs': 'predict',
  'port': 'serve',
  'topology': 'compile',
  'hypotheses': 'score',
  'annotations': 'build',
  'videos': 'extract',
  'config': 'train',
  'workdir': 'train',
  'checkpoint': 'evaluate',
}


def _flag_without_command(arguments: Sequence[str]) -> str:
  """The message about a flag in place of a subcommand, with the whole command that may be meant."""
  given = dict(argument.lstrip('-').partition('=')[::2] for argument in arguments)
  known = (_COMMAND_OF_FLAG[flag] for flag in _COMMAND_OF_FLAG if flag in given)
  meant = given.get('mode') or next(known, '')
  hint = f'{COMMAND} --help lists them'
  if meant in {command.name for command in COMMANDS}:
    flags = [argument for argument in arguments if argument.lstrip('-').partition('=')[0] != 'mode']
    hint = f'did you mean {shlex.join([COMMAND, meant, *flags])}?'
  return f'{arguments[0]}: a command comes before flags; {hint}'


def _unknown(kind: str, name: str, known: Sequence[str], lists_them: str) -> str:
  near = difflib.get_close_matches(name, known)
  hint = f'did you mean {" or ".join(near)}?' if near else f'{lists_them} lists them'
  return f'unknown {kind} {name!r}; {hint}'


def _import_from_current_folder() -> None:
  """Makes modules in the current folder importable, as ``python -m`` does: own models, readers."""
  if not sys.flags.safe_path and os.getcwd() not in sys.path and '' not in sys.path:
    sys.path.insert(0, os.getcwd())
