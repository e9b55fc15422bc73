"""What all benchmarks share: how their commands end."""

import importlib
import os
import pathlib

import pytest

import benchmarks
from vidcap_jax.command_errors import PIPE_CLOSED

# Programs of processes that a benchmark starts; they print for it alone.
WORKERS = {'device_worker', 'kill_run'}


def commands():
  """The modules that are commands."""
  files = sorted(pathlib.Path(benchmarks.__file__).parent.glob('*.py'))
  with_main = [file.stem for file in files if '\ndef main(' in file.read_text()]
  return [name for name in with_main if name not in WORKERS]


@pytest.mark.parametrize('name', commands())
def test_a_closed_pipe_ends_a_benchmark_quietly(name, monkeypatch):
  main = importlib.import_module(f'benchmarks.{name}').main
  reader, writer = os.pipe()
  os.close(reader)
  with os.fdopen(writer, 'w') as stdout:
    monkeypatch.setattr('sys.stdout', stdout)
    with pytest.raises(SystemExit) as ended:
      main(['--help'])
  assert ended.value.code == PIPE_CLOSED
