import contextlib
import pathlib
import shutil
import sys
from collections.abc import Iterator

import pytest
from absl import app, flags

from tests import tiny
from vidcap_jax import main
from vidcap_jax.checkpoints import restore
from vidcap_jax.cli import commands, parsing
from vidcap_jax.cli import flags as command_line
from vidcap_jax.distributed import mesh
from vidcap_jax.evaluation import evaluate


@contextlib.contextmanager
def _parsed_once() -> Iterator[None]:
  """Afterwards all flags have their defaults again."""
  try:
    yield
  finally:
    for name in list(flags.FLAGS):
      if name.startswith('config.'):
        delattr(flags.FLAGS, name)
    for flag in flags.FLAGS.get_flags_for_module(command_line):
      flag.unparse()


@pytest.fixture
def command(monkeypatch, capsys):
  """Runs main with flags, as the command line would; (exit code, stdout, stderr)."""

  def run(*arguments: str):
    argv = ['vidcap_jax.main', *arguments]
    monkeypatch.setattr(sys, 'argv', argv)
    with _parsed_once(), pytest.raises(SystemExit) as exited:
      app.run(main.main, argv, flags_parser=parsing.parse)
    return _ended(exited.value.code, capsys)

  return run


@pytest.fixture
def vidcap(monkeypatch, capsys):
  """Runs the command ``vidcap``; (exit code, stdout, stderr)."""

  def run(*arguments: str):
    monkeypatch.setattr(sys, 'argv', ['/bin/vidcap', *arguments])
    monkeypatch.setattr(sys, 'path', list(sys.path))
    with _parsed_once(), pytest.raises(SystemExit) as exited:
      sys.exit(commands.main())
    return _ended(exited.value.code, capsys)

  return run


def _ended(code: int | str | None, capsys: pytest.CaptureFixture) -> tuple[int, str, str]:
  out, err = capsys.readouterr()
  if isinstance(code, str):  # what the interpreter would do
    return 1, out, err + code + '\n'
  return code or 0, out, err


@pytest.fixture(scope='session')
def evaluated_run(tiny_run, tmp_path_factory) -> pathlib.Path:
  """A copy of ``tiny_run`` that is evaluated on its validation split, which has references."""
  workdir = tmp_path_factory.mktemp('evaluated') / 'run'
  shutil.copytree(tiny_run, workdir)
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh.make_mesh())
  with tiny.unscored_by_java():
    evaluate.evaluate_command(restored, None, 'val', None)
  return workdir
