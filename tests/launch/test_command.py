"""What stands after -- is handed on word for word."""

import shlex

import pytest

from launch import command
from tests.launch.conftest import NASTY


def test_flags_before_and_arguments_after():
  made = command.parser('launch.local', 'What it does.')
  flags, rest = command.parse(made, ['--dry_run', '--', *NASTY])
  assert flags.dry_run
  assert rest == NASTY
  assert command.training(rest) == ['python', '-m', 'vidcap_jax.main', *NASTY]
  assert shlex.split(command.shell(rest)) == NASTY


def test_a_second_pair_of_dashes_belongs_to_the_command():
  made = command.parser('launch.local', None)
  assert command.parse(made, ['--', 'a', '--', 'b'])[1] == ['a', '--', 'b']


@pytest.mark.parametrize('argument', ['--process_id=1', '-coordinator', '--num_processes'])
def test_what_tells_processes_apart_is_refused(argument, capsys):
  with pytest.raises(SystemExit) as exited:
    command.parse(command.parser('launch.local', None), ['--', argument])
  assert exited.value.code == 2
  assert 'leave it out' in capsys.readouterr().err


def test_nothing_to_start(capsys):
  with pytest.raises(SystemExit):
    command.require(command.parser('launch.local', None), [])
  assert 'nothing after --' in capsys.readouterr().err
