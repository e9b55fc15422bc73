"""A run that is stopped in any way and started again ends as one that was not."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from benchmarks import run_results
from tests import tiny
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.files import read_json
from vidcap_jax.training import ledger, loop, train
from vidcap_jax.training.metric_log import read_metric_log

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, 'PYTHONPATH': str(ROOT)}


@pytest.mark.parametrize(
  ('moment', 'possible'),
  # What had begun to be saved may have been saved or not.
  [
    pytest.param('train-3', [0], marks=pytest.mark.slow),
    ('saving-6', [0, 6]),
    ('val-16', [8, 12]),
    ('trained-0', [16]),
  ],
)
def test_killed_at_any_moment(moment, possible, tiny_run, tiny_data, tmp_path, capsys):
  workdir = tmp_path / 'again'
  shutil.copytree(tiny_run.parent / 'shots' / moment, workdir)
  assert not (workdir / 'stages.json').exists()
  with tiny.without_java():
    tiny.run(tiny.get_config(tiny_data), workdir)
  found = re.search(r'restored step (\d+) ', capsys.readouterr().out)
  assert (int(found[1]) if found else 0) in possible
  assert run_results.read_run(workdir) == run_results.read_run(tiny_run)
  check_ledger(workdir, tiny_run.parent / 'shots' / moment, int(found[1]) if found else 0)


def check_ledger(workdir: pathlib.Path, killed: pathlib.Path, step: int):
  """The time adds up over a kill, and what it undid is lost.

  Args:
    workdir: of the finished run.
    killed: the folder as the kill left it.
    step: of the checkpoint that the second start went on from.
  """
  before, after = (read_json(folder / 'goodput.json') for folder in (killed, workdir))
  seconds = after['seconds']
  assert (after['starts'], after['finished'], after['began']) == (2, True, before['began'])
  assert sum(seconds.values()) == pytest.approx(after['wall_seconds'])
  assert min(seconds.values()) > -1e-3
  assert seconds['restarting'] > 0 < seconds['stopped']
  saved = before['marks'][f'xe/{step}']
  undone = {part: before['seconds'][part] - saved[part] for part in ledger.WORK}
  assert seconds['lost'] == pytest.approx(sum(undone.values()))
  if killed.name == 'val-16':  # after the last steps and their validation
    assert undone['stepping'] > 0 < undone['evaluating']


@pytest.fixture
def interrupted(monkeypatch):
  """SIGTERM comes in the call of MODULE.NAME of number COUNT."""

  def prepare(module, name, count):
    function, calls = getattr(module, name), []

    def called(*args):
      calls.append(name)
      if len(calls) == count:
        os.kill(os.getpid(), signal.SIGTERM)
      return function(*args)

    monkeypatch.setattr(module, name, called)

  return prepare


@pytest.mark.parametrize(
  ('module', 'name', 'count'),
  [
    pytest.param(loop, 'update_progress', 2, id='in the last validation'),
    pytest.param(checkpoint, 'finish', 1, id='in the last save'),
  ],
)
def test_sigterm_after_the_last_step(module, name, count, tiny_data, tmp_path, interrupted, capfd):
  config, workdir = tiny.short_config(tiny_data), tmp_path / 'work'
  interrupted(module, name, count)
  with tiny.without_java():
    with pytest.raises(train.Preempted, match="SIGTERM: saved step 3 of stage 'xe'") as stopped:
      tiny.run(config, workdir)
    assert stopped.value.signal == signal.SIGTERM
    assert checkpoint.steps(workdir / 'checkpoints' / 'xe')[-1] == 3
    assert not (workdir / 'stages.json').exists()
    assert 'SIGTERM: stopping after this step' in capfd.readouterr().err
    tiny.run(config, workdir)  # goes on with the scores
  assert 'restored step 3 ' in capfd.readouterr().out
  assert (workdir / 'eval' / 'test' / 'metrics.json').is_file()


def run_until(text: str, signal_number: int, argv, cwd) -> tuple[int, str]:
  """Starts a command and sends it a signal once it prints TEXT; its exit code and output."""
  process = subprocess.Popen(
    argv, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
  )
  guard = threading.Timer(200, process.kill)
  guard.start()
  lines = []
  try:
    for line in process.stdout:
      lines.append(line)
      if text in line:
        os.kill(process.pid, signal_number)
    return process.wait(), ''.join(lines)
  finally:
    guard.cancel()
    process.kill()


def test_killed_and_terminated_through_the_entry(tiny_run, tiny_data, tmp_path):
  config = f'--config={ROOT / "tests" / "tiny.py"}'
  argv = [sys.executable, '-u', '-m', 'vidcap_jax.main', config, f'--config.data.dir={tiny_data}']
  argv.append('--workdir=work')  # a relative folder
  code, output = run_until('step 9/16', signal.SIGKILL, argv, tmp_path)
  assert code == -signal.SIGKILL, output
  assert 'step 16/16' not in output

  code, output = run_until('step 10/16', signal.SIGTERM, argv, tmp_path)
  assert code == 143, output
  assert 'Traceback' not in output
  assert re.search('restored step [68] ', output)
  saved = max(r['step'] for r in read_metric_log(tmp_path / 'work') if r['kind'] == 'train')
  assert 10 <= saved < 16
  assert f'SIGTERM: saved step {saved} of stage' in output
  assert (tmp_path / 'work' / 'checkpoints' / 'xe' / str(saved)).is_dir()
  command = output.rstrip().splitlines()[-1]
  assert shlex.split(command) == argv

  done = subprocess.run(
    argv, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=200
  )
  assert done.returncode == 0, done.stderr
  assert f'restored step {saved} ' in done.stdout
  assert run_results.read_run(tmp_path / 'work') == run_results.read_run(tiny_run)
