"""Scripts that complete a command in bash, zsh and fish, from its subcommands and flags."""

import dataclasses
import shlex
from collections.abc import Callable, Iterator, Mapping

from vidcap_jax.program_name import COMMAND

CONFIG_KEYS = '--config.'  # flags that begin so are many; they are offered once this is typed


@dataclasses.dataclass(frozen=True)
class Flag:
  """A flag.

  Attributes:
    name: with its dashes.
    about: a few words.
    takes_value: whether ``=VALUE`` follows.
    values: those to offer; files are offered too where there are none, and for ``--config``.
  """

  name: str
  about: str = ''
  takes_value: bool = False
  values: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Node:
  """A command with its flags and subcommands.

  Attributes:
    about: a few words.
    flags: its own.
    nodes: name -> subcommand.
  """

  about: str
  flags: tuple[Flag, ...] = ()
  nodes: Mapping[str, 'Node'] = dataclasses.field(default_factory=dict)


def walk(node: Node, path: str = '') -> Iterator[tuple[str, Node]]:
  """Every command with its path, such as 'studies human'; '' is that of the first."""
  yield path, node
  for name, child in node.nodes.items():
    yield from walk(child, f'{path} {name}'.strip())


def bash(root: Node) -> str:
  """The script for bash 4.4 or newer.

  bash splits words at = and : too, so that the line is read instead, and what bash takes for a word
  of its own is cut off from the replies.
  """
  options, keys, values = _bash_cases(root)
  return f"""\
# Completion of {COMMAND} for bash, printed by: {COMMAND} completion bash
_{COMMAND}() {{
  local line=${{COMP_LINE:0:COMP_POINT}} node='' options='' values='' current='' word
  local -a words
  read -ra words <<< "$line"
  if [[ $line != *[[:space:]] ]]; then
    current=${{words[-1]}}
    unset 'words[-1]'
  fi
  for word in "${{words[@]:1}}"; do
    case "$node/$word" in
      {_paths(root)}) node="${{node:+$node }}$word" ;;
    esac
  done
  COMPREPLY=()
  if [[ $current != --*=* ]]; then
    case $node in
{_lines(options)}
    esac
    if [[ $current == {CONFIG_KEYS}* ]]; then
      case $node in
{_lines(keys)}
      esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    if (( ${{#COMPREPLY[@]}} )); then
      [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
      return
    fi
    [[ $current == -* ]] && return
  fi
  # A value: its last part, after = or a comma, is completed.
  case "$node ${{current%%=*}}" in
{_lines(values)}
  esac
  local rest=$current before lead
  [[ $rest == -* ]] && rest=${{rest#*=}}
  rest=${{rest##*[=,]}}
  before=${{current%"$rest"}}
  lead=$current  # up to the last separator of words that bash knows
  while [[ -n $lead && ! ( ${{lead: -1}} == [=:] && $COMP_WORDBREAKS == *"${{lead: -1}}"* ) ]]; do
    lead=${{lead%?}}
  done
  mapfile -t COMPREPLY < <(compgen -W "$values" -- "$rest")
  if [[ -z $values || $current == --config=* ]]; then
    compopt -o filenames
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$rest")
  fi
  [[ ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace
  COMPREPLY=("${{COMPREPLY[@]/#/$before}}")
  COMPREPLY=("${{COMPREPLY[@]#"$lead"}}")
}}
complete -F _{COMMAND} {COMMAND}"""


def _bash_cases(root: Node) -> tuple[list[str], list[str], list[str]]:
  """The words of each command, its config keys, and the values of its flags, as cases."""
  options, keys, values = [], [], []
  for path, node in walk(root):
    names = [*node.nodes, *(f.name + '=' * f.takes_value for f in node.flags if not _is_key(f))]
    options.append(f'    {shlex.quote(path)}) options={shlex.quote(" ".join(names))} ;;')
    if found := ' '.join(f'{flag.name}=' for flag in node.flags if _is_key(flag)):
      keys.append(f'    {shlex.quote(path)}) options={shlex.quote(found)} ;;')
    values += [
      f'    {shlex.quote(f"{path} {flag.name}")}) values={shlex.quote(" ".join(flag.values))} ;;'
      for flag in node.flags
      if flag.values
    ]
  return options, keys, values


def zsh(root: Node) -> str:
  """The script for zsh."""
  options, keys, values = [], [], []
  for path, node in walk(root):
    commands = ' '.join(_zsh_item(name, child.about) for name, child in node.nodes.items())
    own = _zsh_flags([f for f in node.flags if not _is_key(f)])
    options.append(f'    {shlex.quote(path)}) commands=({commands}) flags=({own}) ;;')
    if found := [f for f in node.flags if _is_key(f)]:
      keys.append(f'      {shlex.quote(path)}) flags=({_zsh_flags(found)}) ;;')
    values += [
      f'      {shlex.quote(f"{path} {flag.name}")}) compadd -- {" ".join(flag.values)} ;;'
      for flag in node.flags
      if flag.values
    ]
  return f"""\
#compdef {COMMAND}
# Completion of {COMMAND} for zsh, printed by: {COMMAND} completion zsh
_{COMMAND}() {{
  local node='' word flag
  local -a commands flags
  for word in ${{words[2,CURRENT-1]}}; do
    case "$node/$word" in
      ({_paths(root)}) node="${{node:+$node }}$word" ;;
    esac
  done
  if [[ $PREFIX == --*=* ]]; then
    flag=${{PREFIX%%=*}}
    compset -P '*[=,]'
    case "$node $flag" in
{_lines(values)}
    esac
    [[ $flag == --config || $compstate[nmatches] -eq 0 ]] && _files
    return
  fi
  case $node in
{_lines(options)}
  esac
  if [[ $PREFIX == {CONFIG_KEYS}* ]]; then
    case $node in
{_lines(keys)}
    esac
  fi
  (( $#commands )) && _describe -t commands command commands
  [[ $PREFIX == -* ]] || (( $#commands )) || _files
  [[ $PREFIX == -* || -z $PREFIX ]] && _describe -t flags flag flags -S ''
}}
if [[ $funcstack[1] == _{COMMAND} ]]; then _{COMMAND} "$@"; else compdef _{COMMAND} {COMMAND}; fi"""


def fish(root: Node) -> str:
  """The script for fish 3 or newer."""
  lines = []
  for path, node in walk(root):
    at = f'complete -c {COMMAND} -n {shlex.quote(f"__{COMMAND}_at {shlex.quote(path)}")}'
    for name, child in node.nodes.items():
      lines.append(f'{at} -f -a {name} -d {_fish_text(child.about)}')
    for flag in node.flags:
      name = flag.name.removeprefix('--')
      if _is_key(flag):
        typed = f'string match -q -- "{CONFIG_KEYS}*" (commandline -ct)'
        condition = f'__{COMMAND}_at {shlex.quote(path)}; and {typed}'
        start = f'complete -c {COMMAND} -n {shlex.quote(condition)}'
      else:
        start = at
      kind = ''
      if flag.takes_value:
        kind = f' -x -a {_fish_text(" ".join(flag.values))}' if flag.values else ' -r'
        if flag.name == '--config':
          kind = kind.replace('-x', '-r -F')
      lines.append(f'{start} -l {name}{kind} -d {_fish_text(flag.about)}')
  return f"""\
# Completion of {COMMAND} for fish, printed by: {COMMAND} completion fish
function __{COMMAND}_at
  set -l node ''
  set -l words (commandline -opc)
  for word in $words[2..]
    switch "$node/$word"
      case {_paths(root, ' ')}
        set node (string trim "$node $word")
    end
  end
  test "$node" = "$argv[1]"
end
{_lines(lines)}"""


SCRIPTS: Mapping[str, Callable[[Node], str]] = {'bash': bash, 'zsh': zsh, 'fish': fish}


def _is_key(flag: Flag) -> bool:
  return flag.name.startswith(CONFIG_KEYS)


def _paths(root: Node, between: str = '|') -> str:
  """A pattern that matches each command's path, with a slash before its last word."""
  paths = [path for path, _ in walk(root) if path]
  parts = [path.rpartition(' ') for path in paths]
  return between.join(shlex.quote(f'{parent}/{name}') for parent, _, name in parts)


def _lines(lines: list[str]) -> str:
  return '\n'.join(lines)


def _zsh_item(name: str, about: str) -> str:
  return shlex.quote(f'{name.replace(":", chr(92) + ":")}:{about}')


def _zsh_flags(flags: list[Flag]) -> str:
  return ' '.join(_zsh_item(flag.name + '=' * flag.takes_value, flag.about) for flag in flags)


def _fish_text(text: str) -> str:
  """Quoted for fish, in which a backslash escapes a quote inside single quotes."""
  return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"
