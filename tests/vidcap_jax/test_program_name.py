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
