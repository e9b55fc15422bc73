"""How commands end: with a line for an error of the user, and quietly if nobody reads on."""

import signal
import subprocess
import sys

import pytest

from vidcap_jax.command_errors import exit_on_closed_pipe, exit_on_error
from vidcap_jax.errors import DataError


@pytest.mark.parametrize(
  ('error', 'words'),
  [
    (DataError('data/mine: empty'), 'error: data/mine: empty'),
    (FileNotFoundError(2, 'No such file', 'a.json'), 'a.json'),
    (ModuleNotFoundError('matplotlib is needed'), 'matplotlib'),
  ],
)
def test_errors_of_the_user_are_one_line(error, words):
  @exit_on_error()
  def command():
    raise error

  for _ in range(2):
    with pytest.raises(SystemExit, match=words):
      command()


def test_other_errors_are_faults():
  with pytest.raises(KeyError), exit_on_error():
    raise KeyError('x')
  with pytest.raises(DataError), exit_on_closed_pipe():
    raise DataError('x')


@pytest.mark.parametrize('wrapper', ['exit_on_error', 'exit_on_closed_pipe'])
@pytest.mark.parametrize(
  ('options', 'end'),
  [([], ''), (['-u'], ''), ([], 'raise SystemExit(0)')],
  ids=['buffered', 'unbuffered', 'exits'],
)
def test_a_closed_pipe_ends_a_command_quietly(wrapper, options, end):
  program = (
    f'from vidcap_jax.command_errors import {wrapper}\n'
    f'@{wrapper}()\ndef main():\n  input()\n  print("a line")\n  {end}\nmain()'
  )
  with subprocess.Popen(
    [sys.executable, *options, '-c', program],
    **dict.fromkeys(('stdin', 'stdout', 'stderr'), subprocess.PIPE),
    text=True,
  ) as process:
    process.stdout.close()
    process.stdin.write('\n')
    process.stdin.close()
    assert process.stderr.read() == ''
  assert process.returncode == 128 + signal.SIGPIPE
