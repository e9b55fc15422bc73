import sys

import pytest
from absl import app, flags

from vidcap_jax import main
from vidcap_jax.cli import flags as command_line


@pytest.fixture
def command(monkeypatch, capsys):
  """Runs main with flags, as the command line would; (exit code, stdout, stderr)."""

  def run(*arguments: str):
    argv = ['vidcap_jax.main', *arguments]
    monkeypatch.setattr(sys, 'argv', argv)
    try:
      with pytest.raises(SystemExit) as exited:
        app.run(main.main, argv, flags_parser=command_line.parse)
    finally:
      for name in list(flags.FLAGS):
        if name.startswith('config.'):
          delattr(flags.FLAGS, name)
      for flag in flags.FLAGS.get_flags_for_module(command_line):
        flag.unparse()
    code, (out, err) = exited.value.code, capsys.readouterr()
    if isinstance(code, str):  # what the interpreter would do
      code, err = 1, err + code + '\n'
    return code or 0, out, err

  return run
