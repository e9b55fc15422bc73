"""Misspelt flags and empty paths of every command that reads its arguments with argparse."""

import argparse
import importlib

import pytest

from vidcap_jax import command_arguments
from vidcap_jax.cli import commands
from vidcap_jax.errors import UserError

MODULES = [
  *(command.module for command in commands.COMMANDS if command.module and not command.mode),
  *(f'vidcap_jax.studies.{name}' for name in commands.STUDIES),
  *('data_prep.synthetic.clips', 'data_prep.synthetic.probes'),
]


@pytest.fixture
def parser():
  parser = argparse.ArgumentParser(allow_abbrev=False)
  parser.add_argument('--weights', required=True, metavar='FILE')
  parser.add_argument('--splits', metavar='FILE[,FILE]|NAME')
  parser.add_argument('--html', metavar='FILE')
  parser.add_argument('--match', metavar='RULE[,RULE]')
  parser.add_argument('--count', type=int)
  return parser


def parse(parser, *arguments):
  return command_arguments.parse(parser, ['--weights=w', *arguments], may_be_empty=('--html',))


def test_arguments(parser):
  options = parse(parser, '--splits', 's', '--count', '-3', '--html=', '--match=')
  expected = {'weights': 'w', 'splits': 's', 'count': -3, 'html': '', 'match': ''}
  assert vars(options) == expected


@pytest.mark.parametrize(
  ('argument', 'hint'),
  [
    ('--split=a', '--splits'),
    ('--wieghts', '--weights'),
    ('-weights=w', '--weights'),
    ('--zzzzzz=w', '--help'),
  ],
)
def test_a_misspelt_flag_has_a_near_one(parser, argument, hint, capsys):
  with pytest.raises(SystemExit) as ended:
    parse(parser, argument)
  assert ended.value.code == 2
  error = capsys.readouterr().err.splitlines()[-1]
  assert argument.partition('=')[0] in error
  assert hint in error


def test_a_misspelt_flag_is_found_before_the_one_that_is_missing(parser, capsys):
  with pytest.raises(SystemExit):
    command_arguments.parse(parser, ['--weihgts=w'])
  assert 'did you mean --weights?' in capsys.readouterr().err


def test_text_that_begins_with_dashes_is_no_flag(parser):
  parser.add_argument('--caption')
  assert parse(parser, '--caption', '--a dash').caption == '--a dash'
  with pytest.raises(SystemExit):  # argparse refuses it after --, as no argument takes it
    parse(parser, '--', '--splits=')


def test_the_beginning_of_a_flag(parser):
  parser.allow_abbrev = True
  assert parse(parser, '--spl=s').splits == 's'
  with pytest.raises(UserError, match='--spl=:'):
    parse(parser, '--spl=')


@pytest.mark.parametrize('arguments', [['--splits='], ['--splits', '']])
def test_an_empty_path_is_refused(parser, arguments):
  with pytest.raises(UserError, match='--splits=: .*FILE.*leave --splits out'):
    parse(parser, *arguments)


def test_an_empty_path_that_is_needed(parser):
  with pytest.raises(UserError, match='--weights=') as refused:
    command_arguments.parse(parser, ['--weights='])
  assert 'leave' not in str(refused.value)


def test_flags_of_a_subcommand():
  parser = argparse.ArgumentParser()
  draw = parser.add_subparsers().add_parser('draw')
  draw.add_argument('--runs', metavar='PATH,…')
  assert command_arguments.parse(parser, ['draw', '--runs=r']).runs == 'r'
  with pytest.raises(UserError, match='--runs='):
    command_arguments.parse(parser, ['draw', '--runs='])


@pytest.mark.parametrize('module', MODULES)
def test_every_command_names_the_misspelt_flag(module, capsys):
  with pytest.raises(SystemExit) as ended:
    importlib.import_module(module).main(['--ouptut=x'])
  assert ended.value.code == 2
  assert '--ouptut;' in capsys.readouterr().err


@pytest.mark.parametrize(
  ('module', 'flag'),
  [
    *(('data_prep.build', flag) for flag in ('--splits', '--vocabulary', '--id_map')),
    *(('data_prep.extract', flag) for flag in ('--videos', '--output', '--weights')),
    *(('data_prep.inspect', flag) for flag in ('--videos', '--id_map')),
    *(('data_prep.import_checkpoint', flag) for flag in ('--weights', '--infos', '--output')),
    *(('data_prep.synthetic.clips', '--output'), ('data_prep.synthetic.probes', '--output')),
    ('vidcap_jax.evaluation.metrics_command', '--splits'),
    ('vidcap_jax.studies.results', '--runs'),
    ('vidcap_jax.studies.examples', '--references'),
    ('vidcap_jax.studies.attention', '--data'),
  ],
)
def test_empty_paths_of_commands(module, flag, capsys):
  try:
    code = importlib.import_module(module).main([f'{flag}='])
  except SystemExit as ended:
    code = ended.code
  error = capsys.readouterr().err if code == 1 else code
  assert f'{flag}=: an empty path' in error
