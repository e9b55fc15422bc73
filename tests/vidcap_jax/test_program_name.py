"""Usage lines name the command that was typed."""

import sys

import pytest

from vidcap_jax import program_name


@pytest.mark.parametrize(
  ('started_as', 'name'),
  [
    ('vidcap build', 'vidcap build'),
    ('/home/me/data_prep/build.py', 'python -m data_prep.build'),
    ('/home/vidcap user/build.py', 'python -m data_prep.build'),
    ('', 'python -m data_prep.build'),
  ],
)
def test_the_name(started_as, name, monkeypatch):
  monkeypatch.setattr(sys, 'argv', [started_as])
  assert program_name.program_name('data_prep.build') == name


def test_other_commands(monkeypatch):
  """Messages name commands in the form that was typed."""
  monkeypatch.setattr(sys, 'argv', ['vidcap train'])
  assert program_name.command_of('vidcap_jax.main', 'predict') == 'vidcap predict'
  assert program_name.command_of('data_prep.inspect') == 'vidcap inspect'
  monkeypatch.setattr(sys, 'argv', ['/home/me/vidcap_jax/main.py'])
  expected = 'python -m vidcap_jax.main --mode=predict'
  assert program_name.command_of('vidcap_jax.main', 'predict') == expected
  assert program_name.command_of('data_prep.inspect') == 'python -m data_prep.inspect'
