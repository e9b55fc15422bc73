"""What all launchers share: how their commands end."""

import importlib
import os

import pytest

from vidcap_jax.command_errors import PIPE_CLOSED


@pytest.mark.parametrize('name', ['local', 'slurm', 'tpu_vm', 'gke.__main__'])
def test_a_closed_pipe_ends_a_launcher_quietly(name, monkeypatch):
  main = importlib.import_module(f'launch.{name}').main
  reader, writer = os.pipe()
  os.close(reader)
  with os.fdopen(writer, 'w') as stdout:
    monkeypatch.setattr('sys.stdout', stdout)
    with pytest.raises(SystemExit) as ended:
      main(['--help'])
  assert ended.value.code == PIPE_CLOSED
