"""The arguments after -- are passed on unchanged."""

import shlex

import pytest

from launch import command
from tests.launch.conftest import NASTY


def test_flags_before_and_arguments_after():
  parser = command.make_parser('launch.local', 'What it does.')
  flags, rest = command.parse(parser, ['--dry_run', '--', *NASTY])
  assert flags.dry_run
  assert rest == NASTY
  assert command.main_command(rest) == ['python', '-m', 'vidcap_jax.main', *NASTY]
  assert shlex.split(command.shell(rest)) == NASTY


def test_a_second_pair_of_dashes_belongs_to_the_command():
  parser = command.make_parser('launch.local', None)
  assert command.parse(parser, ['--', 'a', '--', 'b'])[1] == ['a', '--', 'b']


@pytest.mark.parametrize('argument', ['--process_id=1', '-coordinator', '--num_processes'])
def test_flags_that_launchers_set_are_refused(argument, capsys):
  with pytest.raises(SystemExit) as exited:
    command.parse(command.make_parser('launch.local', None), ['--', argument])
  assert exited.value.code == 2
  assert 'leave it out' in capsys.readouterr().err


def test_a_command_line_without_arguments(capsys):
  with pytest.raises(SystemExit):
    command.require(command.make_parser('launch.local', None), [])
  assert 'nothing after --' in capsys.readouterr().err
