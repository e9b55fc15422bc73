"""TPU slices, with a fake gcloud that keeps their state in a file and runs commands locally."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from launch import tpu_vm
from tests.launch.conftest import NASTY

FLAGS = ['--name=cap', '--zone=us-west4-a', '--type=v5litepod-16']
GCLOUD = """
words = sys.argv[1:]
assert words[:3] == ['compute', 'tpus', 'tpu-vm'], words
assert '--zone=us-west4-a' in words, words
state, verb = pathlib.Path(os.environ['HOME']) / 'state', words[3]
flags = dict(word.partition('=')[::2] for word in words if word.startswith('--'))
if verb == 'describe':
  if not state.exists():
    sys.exit('NOT_FOUND')
  print(state.read_text())
elif verb in ('create', 'start'):
  state.write_text('READY')
elif verb == 'delete':
  state.unlink()
elif verb == 'scp':
  source, target = [word for word in words[4:] if not word.startswith('--')]
  (state.parent / pathlib.Path(source).name).write_bytes(pathlib.Path(source).read_bytes())
elif verb == 'ssh':
  sys.exit(subprocess.run(['bash', '-c', flags['--command']], cwd=state.parent).returncode)
"""
SAVES = """
def stop(*_):
  print('saved', flush=True)
  sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print('started', flush=True)
if os.environ.get('CODE'):
  sys.exit(int(os.environ['CODE']))
time.sleep(60)
"""


@pytest.fixture
def cloud(fakes):
  fakes.add('gcloud', GCLOUD)
  # A fake, so that nothing is installed from the network.
  fakes.add('python3')
  fakes.add('python', SAVES)
  venv = fakes.home / 'vidcap_jax' / '.venv' / 'bin'
  venv.mkdir(parents=True)
  (venv / 'python').symlink_to(fakes.folder / 'python')
  # As after the step copy.
  (fakes.home / 'vidcap_jax' / 'launch').mkdir()
  shutil.copy(tpu_vm.ROOT / 'launch' / 'tpu_worker.sh', fakes.home / 'vidcap_jax' / 'launch')
  yield fakes
  pid = fakes.home / 'vidcap_jax' / 'run.pid'
  if pid.exists():
    with contextlib.suppress(ProcessLookupError, ValueError):
      os.kill(int(pid.read_text()), signal.SIGKILL)


def verbs(cloud) -> list[str]:
  return [words[3] for words in cloud.calls('gcloud')]


@pytest.mark.usefixtures('nothing_was_run_inside')
def test_all_steps(cloud, capfd, monkeypatch):
  monkeypatch.setenv('CODE', '5')
  assert tpu_vm.main([*FLAGS, '--', *NASTY]) == 5
  assert verbs(cloud) == ['describe', 'create', 'scp', 'ssh', 'ssh', 'ssh', 'ssh']
  create = cloud.calls('gcloud')[1]
  assert {'cap', '--accelerator-type=v5litepod-16', '--version=v2-alpha-tpuv5-lite'} < set(create)
  assert cloud.calls('python') == [['-m', 'vidcap_jax.main', *NASTY]]
  assert capfd.readouterr().out.endswith('started\n')
  assert (cloud.home / 'vidcap_jax' / 'vidcap_jax' / 'main.py').is_file()
  assert ['-m', 'uv', 'venv', '-q', '--allow-existing', '--python=3.12', '.venv'] in cloud.calls(
    'python3'
  )


def test_the_same_command_resumes(cloud, capfd, monkeypatch):
  """It uses the existing slice, leaves a running run alone, and restarts a run that has ended."""
  (cloud.home / 'state').write_text('READY')
  steps = ['--steps=create,start', '--', '--config=x']
  assert tpu_vm.main([*FLAGS, *steps]) == 0
  assert 'create' not in verbs(cloud)
  wait_for(cloud, 'started')
  assert tpu_vm.main([*FLAGS, *steps]) == 0
  assert 'already running' in capfd.readouterr().out
  assert tpu_vm.main([*FLAGS, '--steps=stop']) == 0
  assert tpu_vm.main([*FLAGS, '--steps=logs']) == 143
  assert capfd.readouterr().out.endswith('started\nsaved\n')
  assert tpu_vm.main([*FLAGS, '--steps=stop']) == 0
  monkeypatch.setenv('CODE', '0')
  assert tpu_vm.main([*FLAGS, '--steps=create,start,logs', '--', '--config=x']) == 0
  assert cloud.calls('python') == [['-m', 'vidcap_jax.main', '--config=x']] * 2


def test_a_running_run_is_left_alone(cloud, capfd):
  (cloud.home / 'state').write_text('READY')
  assert tpu_vm.main([*FLAGS, '--steps=start', '--', '--config=x']) == 0
  wait_for(cloud, 'started')
  assert tpu_vm.main([*FLAGS, '--steps=create,copy,install,start', '--', '--config=x']) == 0
  assert capfd.readouterr().out.count('already running') == 3
  assert not (cloud.home / 'vidcap_jax' / 'vidcap_jax').exists()
  assert cloud.calls('python3') == []
  assert tpu_vm.main([*FLAGS, '--steps=stop']) == 0
  assert tpu_vm.main([*FLAGS, '--steps=copy,install']) == 0
  assert (cloud.home / 'vidcap_jax' / 'vidcap_jax').exists()
  assert len(cloud.calls('python3')) == 3


def test_runs_and_data_are_not_copied():
  """Git ignores the folders that the docs name, but not packages of the same names."""

  def ignored(*paths):
    words = ['git', 'check-ignore', '--no-index', *paths]
    return subprocess.run(words, cwd=tpu_vm.ROOT, capture_output=True, text=True).stdout.split()

  left_out = ['runs/a/metrics.jsonl', 'data/mine/train.msgpack', 'slurm-77.out']
  assert ignored(*left_out) == left_out
  assert (
    ignored('vidcap_jax/data/new.py', 'tests/vidcap_jax/data/new.py', 'launch/slurm.sbatch') == []
  )


def wait_for(cloud, text):
  log = cloud.home / 'vidcap_jax' / 'run.log'
  while text not in log.read_text():
    time.sleep(0.05)


@pytest.mark.parametrize(
  ('state', 'expected'),
  [
    ('READY', []),
    ('STOPPED', ['start']),
    ('PREEMPTED', ['delete', 'create']),
    ('TERMINATED', ['delete', 'create']),
    (None, ['create']),
  ],
)
def test_a_slice_in_any_state(state, expected, cloud):
  if state:
    (cloud.home / 'state').write_text(state)
  assert tpu_vm.main([*FLAGS, '--steps=create']) == 0
  assert verbs(cloud) == ['describe', *expected]


def test_a_slice_that_is_being_created(cloud, capfd):
  (cloud.home / 'state').write_text('CREATING')
  assert tpu_vm.main([*FLAGS, '--steps=create,copy']) == 1
  assert 'cap is CREATING' in capfd.readouterr().err
  assert verbs(cloud) == ['describe']


def test_retries_resume_a_preempted_run(cloud, monkeypatch, capfd):
  argv = [*FLAGS, '--steps=create,start,logs', '--retries=2', '--', '--config=x']
  monkeypatch.setenv('CODE', '143')
  assert tpu_vm.main(argv) == 143
  assert cloud.calls('python') == [['-m', 'vidcap_jax.main', '--config=x']] * 3
  assert 'ended with 143' in capfd.readouterr().err
  monkeypatch.setenv('CODE', '1')  # a failure is not retried
  assert tpu_vm.main(argv) == 1
  assert len(cloud.calls('python')) == 4


@pytest.mark.parametrize(
  ('code', 'runs'), [(143, 3), (75, 3), (134, 3), (255, 3), (1, 1), (137, 1), (0, 1)]
)
def test_exit_codes_that_are_retried(code, runs, tmp_path):
  assert tpu_vm.run(f'echo run >> {tmp_path}/runs; exit {code}', 2) == code
  assert (tmp_path / 'runs').read_text().count('run') == runs


@pytest.mark.usefixtures('nothing_was_run_inside')
def test_dry_run_prints_the_script(cloud, capsys, monkeypatch):
  argv = [*FLAGS, '--project=mine', '--spot', '--create=--network=a b', '--', *NASTY]
  assert tpu_vm.main(['--dry_run', *argv]) == 0
  printed = capsys.readouterr().out
  assert cloud.calls('gcloud') == []
  ran = []
  monkeypatch.setattr(tpu_vm, 'run', lambda text, retries: ran.append(text) or 0)
  assert tpu_vm.main(argv) == 0
  assert ran == [printed]
  monkeypatch.setenv('CODE', '0')
  assert subprocess.run(['bash', '-c', printed]).returncode == 0
  create = cloud.calls('gcloud')[1]
  assert {'--spot', '--network=a b', '--project=mine'} < set(create)
  assert cloud.calls('python') == [['-m', 'vidcap_jax.main', *NASTY]]


@pytest.mark.parametrize(
  ('argv', 'message'),
  [
    (FLAGS, 'nothing after --'),
    ([*FLAGS[:2], '--', '-c'], 'needs --type'),
    ([*FLAGS, '--steps=copy,strat'], '--steps: unknown strat; known: create, '),
    (['--name=$(x)', *FLAGS[1:], '--', '-c'], '--name=$(x): '),
    ([*FLAGS, '--', '--num_processes=2'], '--num_processes is set'),
  ],
)
def test_wrong_flags(argv, message, capsys):
  with pytest.raises(SystemExit):
    tpu_vm.main(argv)
  assert message in capsys.readouterr().err


def test_an_installation_has_nothing_to_copy(tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(tpu_vm, 'ROOT', tmp_path)  # as site-packages
  with pytest.raises(SystemExit):
    tpu_vm.main([*FLAGS, '--', '--config=x'])
  assert re.search('step copy .*clone', capsys.readouterr().err)


def test_runtime_versions():
  assert tpu_vm.version_of('v6e-8') == 'v2-alpha-tpuv6e'
  assert tpu_vm.version_of('v4-32') == 'tpu-ubuntu2204-base'
  assert pathlib.Path(tpu_vm.ROOT / 'launch' / 'tpu_worker.sh').is_file()
