"""Fakes of a cluster's programs, first on PATH, which record their arguments."""

import json
import os
import pathlib
import sys

import pytest

# Arguments that a shell would change or run if one read them on the way.
NASTY = [
  '--config=configs/a b.py:x',
  '--q=it\'s "so"',
  '--i=$(touch pwned); touch pwned & `touch pwned` | touch pwned > pwned',
  '--v=$HOME ${HOME} $$ $(HOME) \\n %j !!',
  '--two=line\nbreak',
  "--t=('image','motion')",
  '*',
  '',
  '--word=é–',
]


class Fakes:
  """A folder of programs; each call of NAME adds a line to NAME.calls."""

  def __init__(self, folder: pathlib.Path):
    self.folder = folder / 'bin'
    self.home = folder / 'home'
    self.folder.mkdir()
    self.home.mkdir()
    path = f'{self.folder}:{os.environ["PATH"]}'
    self.environment = {**os.environ, 'PATH': path, 'HOME': str(self.home)}

  def add(self, name: str, body: str = '') -> None:
    """Adds a Python program that records its arguments and then runs ``body``."""
    script = self.folder / name
    script.write_text(
      f'#!{sys.executable} -I\n'
      'import json, os, pathlib, signal, subprocess, sys, time\n'
      f'with open({str(self.folder / name)!r} + ".calls", "a") as calls:\n'
      '  calls.write(json.dumps(sys.argv[1:]) + "\\n")\n' + body
    )
    script.chmod(0o755)

  def calls(self, name: str) -> list[list[str]]:
    """The arguments of each call so far."""
    path = self.folder / f'{name}.calls'
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def fakes(tmp_path, monkeypatch) -> Fakes:
  programs = Fakes(tmp_path)
  monkeypatch.setenv('PATH', programs.environment['PATH'])
  monkeypatch.setenv('HOME', str(programs.home))
  return programs


@pytest.fixture
def nothing_was_run_inside(tmp_path):
  """Fails if a shell ran any of ``NASTY``."""
  yield
  root = pathlib.Path(__file__).resolve().parents[2]
  assert not [*tmp_path.rglob('pwned'), *root.glob('pwned'), *pathlib.Path().glob('pwned')]
