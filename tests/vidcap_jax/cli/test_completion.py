"""Completion in real shells: what is on the command line after a press of the tab key."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from vidcap_jax.cli import commands, completion, shell_scripts

# Typed -> the words after a press of the tab key.
CASES = [
  ('vidcap tra', 'train'),
  ('vidcap stu', 'studies'),
  ('vidcap studies att', 'studies attention'),
  ('vidcap studies human dr', 'studies human draw'),
  ('vidcap studies human draw --crit', 'studies human draw --criteria='),
  ('vidcap train --workd', 'train --workdir='),
  ('vidcap train --prof', 'train --profile='),
  ('vidcap train --print', 'train --print_config'),
  ('vidcap train --config.optimizer.learn', 'train --config.optimizer.learning_rate='),
  ('vidcap train --config=configs/msrvtt_st', 'train --config=configs/msrvtt_stats.py'),
  ('vidcap train --config=own_f', 'train --config=own_folder/'),
  ('vidcap train --config=own_folder/co', 'train --config=own_folder/config.py'),
  ('vidcap predict --pictures=fr', 'predict --pictures=frames'),
  ('vidcap predict --decode=be', 'predict --decode=beam='),
  ('vidcap predict --inputs=clip_o', 'predict --inputs=clip_one.mp4'),
  ('vidcap predict --inputs=a.mp4,clip_o', 'predict --inputs=a.mp4,clip_one.mp4'),
  ('vidcap build --features=image=clip_o', 'build --features=image=clip_one.mp4'),
  ('vidcap build --mis', 'build --missing='),
  ('vidcap build --missing=sk', 'build --missing=skip'),
  ('vidcap inspect own', 'inspect own_folder/'),
  ('vidcap completion fi', 'completion fish'),
]
TIME_LIMIT = 30.0


@pytest.fixture(scope='module')
def tree() -> shell_scripts.Node:
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(sys, 'argv', ['vidcap completion', 'bash'])
    return completion.tree()


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
  """Where the shells run."""
  (tmp_path / 'own_folder').mkdir()
  (tmp_path / 'own_folder' / 'config.py').touch()
  (tmp_path / 'clip_one.mp4').touch()
  return tmp_path


def test_every_command_is_in_the_tree(tree):
  paths = [path for path, _ in shell_scripts.walk(tree)]
  assert [path for path in paths if ' ' not in path] == ['', *(c.name for c in commands.COMMANDS)]
  assert [p for p in paths if p.startswith('studies ')] == [
    path
    for name in commands.STUDIES
    for path in (
      f'studies {name}',
      *([f'studies {name} draw', f'studies {name} score'] if name == 'human' else []),
    )
  ]
  flags = {path: {flag.name for flag in node.flags} for path, node in shell_scripts.walk(tree)}
  assert {'--config', '--workdir', '--config.train.epochs', '--coordinator'} <= flags['train']
  assert '--config.train' not in flags['train']  # a section
  assert '--config' not in flags['predict']
  assert {'--format', '--output'} <= flags['build']
  assert '--out' not in flags['build']


class Shell:
  """An interactive shell in a terminal, in which ``vidcap`` prints its words."""

  def __init__(self, words: list[str], folder: pathlib.Path, set_up: str):
    self.terminal, inside = pty.openpty()
    self.process = subprocess.Popen(
      words,
      cwd=folder,
      env={**os.environ, 'TERM': 'dumb', 'HOME': str(folder), 'INPUTRC': '/dev/null'},
      **dict.fromkeys(('stdin', 'stdout', 'stderr'), inside),
      start_new_session=True,
    )
    os.close(inside)
    self.read = ''
    file = folder / 'set_up'
    file.write_text(
      f"vidcap() {{ printf '<%s>' \"$*\"; echo '<EN''D>'; }}\n{set_up}\nvidcap ready\n"
    )
    self.type(f'. {file}\n')
    self.wait_for('<ready><END>')

  def type(self, text: str) -> None:
    os.write(self.terminal, text.encode())

  def wait_for(self, text: str) -> str:
    """What was printed up to and with a text."""
    end = time.monotonic() + TIME_LIMIT
    while text not in self.read:
      ready, _, _ = select.select([self.terminal], [], [], max(0.0, end - time.monotonic()))
      assert ready, f'no {text!r} in {self.read!r}'
      self.read += os.read(self.terminal, 4096).decode(errors='replace')
    found, _, self.read = self.read.partition(text)
    return found + text

  def complete(self, line: str) -> str:
    """The words of a line after a press of the tab key."""
    self.type(f'{line}\t')
    time.sleep(0.1)
    self.type('\n')
    return self.wait_for('<END>').rpartition('<')[0].rpartition('<')[2].rstrip('>').strip()

  def close(self) -> None:
    self.process.kill()
    self.process.wait()
    os.close(self.terminal)


SET_UP = {
  'bash': (['bash', '--noprofile', '--norc', '-i'], "bind 'set bell-style none'; PS1="),
  'zsh': (
    ['zsh', '-f', '-i'],
    'unsetopt beep; PS1=; unsetopt prompt_cr; autoload -U compinit; compinit -D -u',
  ),
}


@pytest.mark.parametrize('name', SET_UP)
def test_after_the_tab_key(name, tree, folder, tmp_path_factory):
  if not shutil.which(name):
    pytest.skip(f'{name} is not installed')
  script = tmp_path_factory.mktemp('scripts') / f'vidcap.{name}'
  script.write_text(shell_scripts.SCRIPTS[name](tree) + '\n')
  words, set_up = SET_UP[name]
  shell = Shell(words, folder, f'{set_up}\n. {script}')
  try:
    # zsh removes the slash after a folder when the line is run.
    found = {line: shell.complete(line).rstrip('/') for line, _ in CASES}
  finally:
    shell.close()
  assert found == {line: expected.rstrip('/') for line, expected in CASES}


def test_shellcheck_accepts_the_script_for_bash(tree):
  program = pathlib.Path(sys.executable).with_name('shellcheck')
  run = subprocess.run(
    [program, '--shell=bash', '-'], input=shell_scripts.bash(tree), capture_output=True, text=True
  )
  assert (run.returncode, run.stdout) == (0, '')


def test_fish(tree, folder, tmp_path_factory):
  if not shutil.which('fish'):
    pytest.skip('fish is not installed')
  script = tmp_path_factory.mktemp('scripts') / 'vidcap.fish'
  script.write_text(shell_scripts.fish(tree) + '\n')
  cases = [case for case in CASES if ',' not in case[0]]  # fish completes the first of a list
  lines = [f"complete -C '{line}' | string replace -r '\\t.*' ''; echo END" for line, _ in cases]
  run = subprocess.run(
    ['fish', '--no-config', '-c', '\n'.join([f'source {script}', *lines])],
    cwd=folder,
    env={**os.environ, 'HOME': str(folder)},
    capture_output=True,
    text=True,
  )
  assert run.stderr == ''
  found = [
    {word.removesuffix('=') for word in part.splitlines()}
    for part in run.stdout.split('END\n')[: len(cases)]
  ]
  for (line, expected), offered in zip(cases, found, strict=True):
    assert expected.split()[-1].removesuffix('=') in offered, line


def test_the_command_prints_a_script(vidcap):
  code, out, err = vidcap('completion', 'bash')
  assert (code, err) == (0, '')
  assert out.rstrip().endswith('complete -F _vidcap vidcap')
  assert vidcap('completion', 'csh')[0] == 2
