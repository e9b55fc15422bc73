"""Config files are named as from the project's folder."""

import pathlib

import pytest


@pytest.fixture(autouse=True)
def in_project(monkeypatch):
  """Runs a test in the project's folder."""
  monkeypatch.chdir(pathlib.Path(__file__).resolve().parents[3])
