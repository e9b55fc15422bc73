"""What each mode finds before it works."""

import pathlib
import re
import types

import jax
import pytest
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import restore
from vidcap_jax.cli import modes
from vidcap_jax.compilation.command import Options
from vidcap_jax.compilation.jobs import Selection

# ml_collections loads config files by a method that importlib gives up.
pytestmark = pytest.mark.filterwarnings('ignore:the load_module:DeprecationWarning')


@pytest.mark.parametrize(
  ('flags', 'message'),
  [
    (
      ['--weights=1,2,3'],
      r'an ensemble of 2 needs as many weights, all above 0; got \[1.0, 2.0, 3.0',
    ),
    (['--weights=1,0'], 'all above 0; got'),
    (['--weights=1,nan'], 'all above 0; got'),
    ([], 'ensemble.*--output'),
    (['--output=/dev/null/x'], '--output=/dev/null/x: cannot write to /dev/null .Not a directory'),
  ],
)
def test_what_is_wrong_with_several_is_found_before_any_is_read(
  flags, message, command, tiny_run, monkeypatch
):
  monkeypatch.setattr(restore, 'restore', None)
  code, _, err = command('--mode=evaluate', f'--checkpoint={tiny_run},{tiny_run}', *flags)
  assert (code, err.count('\n')) == (1, 1)
  assert re.search(message, err)


def test_one_process_exports(command, monkeypatch):
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  code, _, err = command('--mode=export', '--output=OUT', '--checkpoint=C')
  assert (code, err.count('\n')) == (1, 1)
  assert re.search('^error: --mode=export .*one process.* 2: ', err)


@pytest.mark.parametrize(
  ('saved', 'applied'),
  [
    ({'compilation_cache': '/dev/null/programs'}, 'auto'),
    ({'compilation_cache': 'auto'}, 'auto'),
    ({'compilation_cache': ''}, ''),
    ({}, ''),  # from before the key existed
  ],
)
def test_what_a_checkpoint_says_of_the_runtime(saved, applied, command, monkeypatch):
  """How to compute; not where its machine kept compiled programs."""
  runtime = {'matmul_precision': 'highest', **saved}
  of_training = types.SimpleNamespace(config=ConfigDict({'runtime': runtime}))
  monkeypatch.setattr(restore, 'find_checkpoint', lambda path, *_: path)
  monkeypatch.setattr(restore, 'restore', lambda *_: of_training)
  found = []
  monkeypatch.setattr(modes.runtime, 'apply', found.append)
  monkeypatch.setattr(modes.predict, 'predict', lambda *_: len(found) - 1)
  code, _, err = command('--mode=predict', '--checkpoint=C', '--inputs=I')
  assert (code, err) == (0, '')
  assert found == [{'matmul_precision': 'highest', 'compilation_cache': applied}]


@pytest.mark.parametrize('good', [True, False])
def test_flags_and_exit_code_of_compiling(good, command, monkeypatch):
  given = []

  def compile_run(*arguments):
    given.extend(arguments)
    return good

  monkeypatch.setattr(modes.command, 'compile_run', compile_run)
  code, _, err = command(
    *('--mode=compile', '--config=configs/quickstart.py:model=stats', '--topology=v5e:2x4'),
    *('--stage=xe', '--programs=step,beam', '--effort=low', '--batch=fit', '--data=D'),
    *('--output=O', '--compile_timeout=9', '--reports=', '--config.train.batch_size=8'),
  )
  config, selection, options, _ = given
  assert (code, err) == (0 if good else 1, '')
  assert config.source == 'configs/quickstart.py:model=stats'
  assert config.train.batch_size == 8
  assert selection == Selection('xe', ['step', 'beam'], 'D')
  assert options == Options('v5e:2x4', low_effort=True, fit_batch=True, timeout=9.0, output='O')


def test_reports_are_kept_in_the_cache_folder(command, monkeypatch):
  given = []
  monkeypatch.setattr(modes.command, 'compile_run', lambda *arguments: given.append(arguments[2]))
  command('--mode=compile', '--config=configs/quickstart.py', '--topology=v5e:2x4')
  assert given[0].reports == modes.command.default_reports()


def test_an_empty_workdir_is_not_the_current_folder(command, tmp_path, monkeypatch):
  config = pathlib.Path(__file__).parents[3] / 'configs/quickstart.py:tiny'
  monkeypatch.chdir(tmp_path)
  code, _, err = command('--mode=train', f'--config={config}', '--workdir=')
  assert (code, err.count('\n')) == (1, 1)
  assert '--workdir=' in err
  assert not any(tmp_path.iterdir())


EVALUATE = ['--mode=evaluate', '--checkpoint=C']


@pytest.mark.parametrize(
  'flags',
  [
    ['--mode=evaluate', '--checkpoint='],
    *([*EVALUATE, f'--{name}='] for name in ('data', 'fallback', 'output')),
    ['--mode=predict', '--checkpoint=C', '--inputs='],
    ['--mode=compile', '--config=configs/quickstart.py', '--topology=v5e:1', '--data='],
  ],
)
def test_empty_paths_are_refused(command, flags):
  code, _, err = command(*flags)
  assert (code, err.count('\n')) == (1, 1)
  assert f'{flags[-1]}: an empty path' in err


def test_a_workdir_that_cannot_be_made_is_named(command, tmp_path):
  config = pathlib.Path(__file__).parents[3] / 'configs/quickstart.py:tiny'
  (tmp_path / 'file').touch()
  for workdir in (tmp_path / 'file', tmp_path / 'file' / 'run', '/proc/run'):
    code, _, err = command('--mode=train', f'--config={config}', f'--workdir={workdir}')
    assert (code, err.count('\n')) == (1, 1)
    assert f'--workdir={workdir}: cannot write to' in err
