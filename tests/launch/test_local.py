"""Several processes on this machine: their output, how they end, and --dry_run."""

import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest

from launch import local
from tests.launch.conftest import NASTY
from vidcap_jax.command_errors import PIPE_CLOSED

ROOT = pathlib.Path(__file__).resolve().parents[2]


def python(code: str) -> list[str]:
  return [sys.executable, '-I', '-c', f'import os, signal, sys, time\n{code}']


SLEEP = python('time.sleep(60)')
# Prints when it is ready to be stopped, and takes half a second to stop.
SAVES = python(
  'def stop(*_):\n  time.sleep(0.5)\n  os.write(1, b"saved\\n")\n  sys.exit(143)\n'
  'signal.signal(signal.SIGTERM, stop)\nos.write(1, b"ready\\n")\ntime.sleep(60)'
)


def timed(argvs, grace=10.0):
  started = time.monotonic()
  code = local.run(argvs, {}, grace)
  return code, time.monotonic() - started


def test_lines_begin_with_the_process(capsys):
  program = python(
    'print("out", os.environ["HERE"])\nprint("err", file=sys.stderr)\nprint("end", end="")'
  )
  assert local.run([program, program], {'HERE': 'yes'}, 1.0) == 0
  out, err = capsys.readouterr()
  assert sorted(out.splitlines()) == ['[0] end', '[0] out yes', '[1] end', '[1] out yes']
  assert sorted(err.splitlines()) == ['[0] err', '[1] err']


def test_a_failure_stops_the_other_processes(capsys):
  code, seconds = timed([SLEEP, python('sys.exit(3)'), SLEEP])
  assert code == 3
  assert seconds < 10
  assert 'process 1 ended with 3' in capsys.readouterr().err


@pytest.mark.timeout(60)
def test_a_closed_pipe_stops_the_processes():
  """As in ``… | head -1``: they save, and no traceback is printed."""
  talks = python(
    'def stop(*_):\n  os.write(2, b"saved\\n")\n  os._exit(143)\n'
    'signal.signal(signal.SIGTERM, stop)\nos.write(1, b"first\\n")\n'
    'while True: os.write(1, b"more\\n" * 9999)'
  )
  program = (
    'import sys; from vidcap_jax.command_errors import exit_on_error; from launch import local\n'
    f'with exit_on_error(): local.run([{talks!r}] * 2, {{}}, 10.0)'
  )
  pipes = dict.fromkeys(('stdout', 'stderr'), subprocess.PIPE)
  command = [sys.executable, '-c', program]
  with subprocess.Popen(command, cwd=ROOT, text=True, **pipes) as process:
    # Both have printed, so both have set their handlers of the signal.
    waiting = {'[0] first\n', '[1] first\n'}
    while waiting:
      line = process.stdout.readline()
      assert line
      waiting.discard(line)
    process.stdout.close()
    assert sorted(process.stderr) == ['[0] saved\n', '[1] saved\n']
  assert process.returncode == PIPE_CLOSED


def test_a_process_that_ignores_sigterm_is_killed():
  deaf = python(
    'signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint("deaf", flush=True)\ntime.sleep(60)'
  )
  code, seconds = timed([deaf, python('time.sleep(1)\nos.kill(os.getpid(), signal.SIGKILL)')], 0.5)
  assert code == 137  # as shells report what a signal ended
  assert seconds < 10


def test_children_of_a_process_are_killed():
  child = python('import subprocess\nsubprocess.Popen(["sleep", "60"])')
  code, seconds = timed([child])
  assert code == 0
  assert seconds < 10


def test_a_preempted_process_does_not_stop_the_others(capsys):
  late = python('time.sleep(1)\nprint("saved")\nsys.exit(143)')
  code, _ = timed([python('sys.exit(143)'), late], 0.0)
  out, err = capsys.readouterr()
  assert (code, out, err) == (143, '[1] saved\n', '')


def test_a_failure_after_a_preemption_is_a_failure():
  code, _ = timed([python('sys.exit(143)'), python('time.sleep(0.5)\nsys.exit(7)')])
  assert code == 7


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_stopping_the_launcher_stops_each_process_once(number):
  run = f'import sys; from launch import local; sys.exit(local.run({[SAVES, SAVES]!r}, {{}}, 10.0))'
  process = subprocess.Popen(
    [sys.executable, '-c', run], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
  )
  assert process.stdout is not None
  ready = [process.stdout.readline() for _ in range(2)]
  os.killpg(process.pid, number)
  out, _ = process.communicate(timeout=20)
  assert sorted(ready) == ['[0] ready\n', '[1] ready\n']
  assert sorted(out.splitlines()) == ['[0] saved', '[1] saved']
  assert process.returncode == 143


def test_dry_run_prints_the_commands(capsys, monkeypatch):
  monkeypatch.setenv('XLA_FLAGS', '--xla_a=1 --xla_b=2')
  argv = ['--num_processes=3', '--devices=4', '--port=1234', '--', *NASTY]
  assert local.main(['--dry_run', *argv]) == 0
  printed = [shlex.split(line) for line in _lines(capsys.readouterr().out)]
  ran = []
  monkeypatch.setattr(local, 'run', lambda argvs, added, grace: ran.append((argvs, added)) or 0)
  assert local.main(argv) == 0
  ((argvs, added),) = ran
  assert printed == [['env', *(f'{k}={v}' for k, v in added.items()), *words] for words in argvs]
  assert argvs[2][1:] == [
    *('-m', 'vidcap_jax.main', *NASTY),
    *('--coordinator=localhost:1234', '--num_processes=3', '--process_id=2'),
  ]
  assert added == {
    'JAX_PLATFORMS': 'cpu',
    'XLA_FLAGS': '--xla_a=1 --xla_b=2 --xla_force_host_platform_device_count=4',
    'PYTHONUNBUFFERED': '1',
  }


def _lines(text):
  """The commands of a script; an argument may hold a line break."""
  return [f'env {part}' for part in text.removeprefix('env ').split('\nenv ')]


@pytest.mark.parametrize(
  ('argv', 'message'),
  [
    ([], 'nothing after --'),
    (['--config=x'], 'unrecognized arguments: --config=x'),
    (['--devices=0', '--', '--config=x'], '--num_processes and --devices'),
    (['--', '--config=x', '--process_id=1'], '--process_id is set'),
  ],
)
def test_wrong_flags(argv, message, capsys):
  with pytest.raises(SystemExit) as exited:
    local.main(argv)
  assert exited.value.code == 2
  assert message in capsys.readouterr().err


@pytest.mark.parametrize('module', ['local', 'tpu_vm', 'slurm', 'gke'])
def test_help(module):
  run = subprocess.run(
    [sys.executable, '-m', f'launch.{module}', '--help'], cwd=ROOT, capture_output=True, text=True
  )
  assert run.returncode == 0
  assert f'usage: python -m launch.{module} [flags] -- flags of vidcap_jax.main' in run.stdout
  assert '--dry_run' in run.stdout
  assert '-- --config=configs/' in run.stdout
