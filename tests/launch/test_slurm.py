"""What is submitted to Slurm and what the job does there, with fakes of Slurm's programs."""

import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest

from launch import slurm
from tests.launch.conftest import NASTY

SCRIPT = pathlib.Path(slurm.__file__).with_name('slurm.sbatch')
# Like srun: runs the command after its own options, forwards signals, ends with its exit code.
SRUN = """
words = sys.argv[1:]
while words[0].startswith('-'):
  words = words[1:]
child = subprocess.Popen(words)
signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))
code = child.wait()
sys.exit(code if code >= 0 else 128 - code)
"""
EXIT = 'sys.exit(int(os.environ["CODE"]))\n'
SAVE = """
def stop(*_):
  time.sleep(0.3)
  sys.exit(143)
signal.signal(signal.SIGTERM, stop)
print('ready', flush=True)
time.sleep(60)
"""


@pytest.fixture
def job(fakes):
  """Runs the batch script as Slurm would, with ``body`` as the program ``python``."""

  def start(*arguments, code=0, restart=0, setup='', restarts=2, body=EXIT):
    fakes.add('srun', SRUN)
    fakes.add('scontrol')
    fakes.add('python', body)
    variables = {
      'SLURM_JOB_ID': '77',
      'SLURM_JOB_NODELIST': 'n[1-2]',
      'SLURM_RESTART_COUNT': str(restart),
      'CODE': str(code),
    }
    return subprocess.Popen(
      ['bash', str(SCRIPT), str(setup), str(restarts), *arguments],
      env=fakes.environment | variables,
      cwd=fakes.home,
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )

  return start


@pytest.mark.parametrize(
  ('code', 'restart', 'requeued', 'ends'),
  [
    (0, 0, False, 0),
    (1, 0, False, 1),
    (137, 0, False, 137),
    (143, 0, True, 0),
    (143, 1, True, 0),
    (143, 2, False, 143),
    (75, 1, True, 0),
    (75, 2, False, 75),
    (134, 1, True, 0),
  ],
)
def test_exit_codes_and_requeuing(code, restart, requeued, ends, job, fakes):
  process = job('--config=x', code=code, restart=restart)
  process.communicate()
  assert process.returncode == ends
  assert fakes.calls('scontrol') == [['requeue', '77']] * requeued


@pytest.mark.usefixtures('nothing_was_run_inside')
def test_arguments_are_passed_on_unchanged(job, fakes, tmp_path):
  setup = tmp_path / 'set up.sh'
  setup.write_text('echo "sourced in $PWD"\n')
  out, _ = job(*NASTY, setup=setup).communicate()
  assert fakes.calls('python') == [['-m', 'vidcap_jax.main', *NASTY]]
  assert f'sourced in {fakes.home}' in out


def test_a_setup_that_fails_ends_the_job(job, fakes, tmp_path):
  setup = tmp_path / 'setup.sh'
  setup.write_text('false\n')
  process = job(setup=setup)
  process.communicate()
  assert process.returncode == 1
  assert fakes.calls('srun') == []


def test_sigterm_to_the_batch_shell(job, fakes):
  process = job(body=SAVE)
  while 'ready' not in process.stdout.readline():
    pass
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=20)
  assert process.returncode == 0
  assert fakes.calls('scontrol') == [['requeue', '77']]


@pytest.fixture
def late(tmp_path):
  """A setup file that delays each check of the step, so that the step may have ended."""
  setup = tmp_path / 'setup.sh'
  setup.write_text('kill() { sleep 0.5; builtin kill "$@"; }\n')
  return setup


@pytest.mark.parametrize('code', [5, 0])
def test_a_step_that_ends_with_another_code_after_sigterm(code, job, fakes, late):
  """The interrupted wait returns 143, which is not the exit code of the step."""
  process = job(body=SAVE.replace('143', str(code)), setup=late)
  while 'ready' not in process.stdout.readline():
    pass
  time.sleep(1)
  process.send_signal(signal.SIGTERM)
  process.communicate(timeout=20)
  assert process.returncode == code
  assert fakes.calls('scontrol') == []


def test_a_step_that_ends_before_it_is_waited_for(job, fakes, late):
  process = job(code=5, setup=late)
  process.communicate()
  assert process.returncode == 5
  assert len(fakes.calls('python')) == 1


@pytest.mark.usefixtures('nothing_was_run_inside')
def test_dry_run_prints_what_is_submitted(fakes, capsys, tmp_path):
  fakes.add('sbatch')
  setup = tmp_path / 'set up.sh'
  setup.touch()
  argv = ['--nodes=2', f'--setup={setup}', '--sbatch=--comment=a b; $(touch pwned)', '--', *NASTY]
  assert slurm.main(['--dry_run', *argv]) == 0
  printed = capsys.readouterr().out
  assert slurm.main(argv) == 0
  assert slurm.main(argv) == 0  # the same command resumes
  first, again = fakes.calls('sbatch')
  assert shlex.split(printed) == ['sbatch', *first]
  assert first == again
  subprocess.run(['bash', '-c', printed], check=True)
  assert fakes.calls('sbatch')[-1] == first
  at = first.index(str(SCRIPT))
  assert first[at + 1 :] == [str(setup), '100', *NASTY]
  assert '--nodes=2' in first[:at]
  assert f'--chdir={pathlib.Path.cwd()}' in first[:at]
  assert '--comment=a b; $(touch pwned)' in first[:at]


def test_without_slurm(monkeypatch, capsys):
  monkeypatch.setenv('PATH', str(pathlib.Path(sys.executable).parent))
  assert slurm.main(['--', '--config=x']) == 1
  assert 'sbatch is not installed' in capsys.readouterr().err


@pytest.mark.parametrize(
  ('argv', 'message'),
  [
    (['--nodes=2'], 'nothing after --'),
    (['--restarts=-3', '--', '-c'], '--restarts=-3: '),
    (['--nodes=0', '--', '-c'], '--nodes=0: '),
    (['--time=a day', '--', '-c'], '--time=a day: '),
    (['--setup=/nowhere', '--', '-c'], '--setup=/nowhere: '),
    (['--sbatch=script', '--', '-c'], '--sbatch=script: '),
    (['--', '--coordinator=a:1'], '--coordinator is set'),
  ],
)
def test_wrong_flags(argv, message, capsys):
  with pytest.raises(SystemExit):
    slurm.main(argv)
  assert message in capsys.readouterr().err
