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


@pytest.mark.parametrize(
  ('module', 'subcommand'),
  [
    ('vidcap_jax.main --mode=predict', 'predict'),
    ('vidcap_jax.main --config=x', 'train --config=x'),
    ('data_prep.inspect', 'inspect'),
    ('vidcap_jax.evaluation.metrics', 'score'),
    ('vidcap_jax.studies.tables', 'tables'),
    ('vidcap_jax.studies.human draw', 'studies human draw'),
    ('data_prep.apache_beam build', None),
  ],
)
def test_commands_in_messages(module, subcommand, monkeypatch):
  text = f'first python -m {module}; then go on'
  monkeypatch.setattr(sys, 'argv', ['/home/me/vidcap_jax/main.py'])
  assert program_name.as_typed(text) == text
  monkeypatch.setattr(sys, 'argv', ['vidcap train'])
  expected = f'first vidcap {subcommand}; then go on' if subcommand else text
  assert program_name.as_typed(text) == expected
