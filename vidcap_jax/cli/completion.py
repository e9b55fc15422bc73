"""Prints a script that completes subcommands, flags and files of ``vidcap`` in a shell.

    vidcap completion bash > ~/.local/share/bash-completion/completions/vidcap
    vidcap completion zsh > ~/.zfunc/_vidcap        (with fpath+=(~/.zfunc) before compinit)
    vidcap completion fish > ~/.config/fish/completions/vidcap.fish

The script is made from the definitions of the flags and runs no Python, so that completing takes no
time. argcomplete would start Python and import a command's module at each press of the tab key, and
neither it nor shtab reads absl's flags and config keys.
"""

import argparse
import functools
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence

from absl import flags

from vidcap_jax import command_arguments
from vidcap_jax.cli import commands, explanations, mode_help, shell_scripts
from vidcap_jax.cli import flags as command_line
from vidcap_jax.cli.shell_scripts import Flag, Node
from vidcap_jax.config_keys import all_keys
from vidcap_jax.program_name import program_name


def make_parser() -> argparse.ArgumentParser:
  """The command's arguments."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.cli.completion'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument('shell', choices=tuple(shell_scripts.SCRIPTS), help='to print a script for')
  return parser


def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  shell = command_arguments.parse(make_parser(), arguments).shell
  print(shell_scripts.SCRIPTS[shell](tree()))


def tree() -> Node:
  """All subcommands with their flags."""
  nodes = {}
  for command in commands.COMMANDS:
    if command.mode:
      nodes[command.name] = Node(command.about, tuple(_mode_flags(command.mode)))
    elif command.name == 'studies':
      nodes[command.name] = Node(command.about, (), _studies())
    else:
      nodes[command.name] = _parser_node(command.about, _parser_of(command.module))
  return Node('', (), nodes)


def _studies() -> dict[str, Node]:
  return {
    name: _parser_node(about, _parser_of(f'vidcap_jax.studies.{name}'))
    for name, about in commands.studies().items()
  }


def _parser_of(module: str) -> argparse.ArgumentParser:
  return importlib.import_module(module).make_parser()


def _parser_node(about: str, parser: argparse.ArgumentParser) -> Node:
  """A node for an argparse parser and its subparsers; it has no public list of its arguments."""
  found, nodes = [], {}
  for action in parser._actions:
    if isinstance(action, argparse._SubParsersAction):
      helps = {choice.dest: choice.help or '' for choice in action._choices_actions}
      nodes = {n: _parser_node(helps.get(n, ''), p) for n, p in action.choices.items()}
    elif names := [name for name in action.option_strings if name.startswith('--')]:
      explanation = '' if action.help is None else action.help
      values = tuple(map(str, action.choices or ())) or _values(names[0])
      found.append(Flag(names[0], _short(explanation), action.nargs != 0, values))
    elif action.choices:  # a word in place of a flag
      nodes = {str(choice): Node(_short(action.help or '')) for choice in action.choices}
  return Node(about, tuple(found), nodes)


def _mode_flags(mode: str) -> Iterator[Flag]:
  """The flags of a mode, and for training the keys of a config."""
  holders = [*command_line.NEEDED[mode], *command_line.READ[mode]]
  holders += command_line.JOB_FLAGS if mode in command_line.JOB_MODES else ()
  for flag in (flags.FLAGS[holder.name] for holder in holders):
    if about := mode_help.flag_text(flag.help, mode):
      name = f'--{flag.name}'
      values = tuple(mode_help.choices(flag)) or _values(name)
      yield Flag(name, _short(about), not flag.boolean, values)
  yield Flag('--help', 'explains the command')
  if mode in ('train', 'compile'):
    for key, about in _keys().items():
      yield Flag(f'--config.{key}', _short(about), True)


def _values(name: str) -> tuple[str, ...]:
  """Values of flags whose definitions list none: config files, decoding settings."""
  if name == '--config':  # as they are found from any folder
    return tuple(f'configs/{file}' for file in importlib.import_module('configs').files())
  if name == '--decode':
    keys = [key.partition('.') for key in _keys()]
    return tuple(f'{key}=' for section, _, key in keys if section == 'decode')
  return ()


@functools.cache
def _keys() -> Mapping[str, str]:
  """Dotted key -> explanation, of the keys that every config has."""
  common = importlib.import_module('configs.common')
  explained = explanations.from_comments(inspect.getsource(common.base))
  known = list(all_keys(common.base()))
  sections = {key.rpartition('.')[0] for key in known}
  return {key: explained.get(key, '') for key in known if key not in sections}


def _short(explanation: str) -> str:
  """The first words of an explanation, for a line of a menu."""
  text = re.split(r'[;(.](?:\s|$)', ' '.join(explanation.split()).replace('%%', '%'))[0]
  text = re.sub(r'\s*\(?(default:.*)?%\(default\).*', '', text).strip()
  return text if len(text) <= 70 else f'{text[:69].rstrip()}…'
