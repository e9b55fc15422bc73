"""Programs that crash, hang or end without a report."""

import time

import pytest

from tests import tiny
from vidcap_jax.compilation import data_sizes
from vidcap_jax.compilation.jobs import Job
from vidcap_jax.compilation.processes import run_job
from vidcap_jax.compilation.topology import read_topology
from vidcap_jax.training import experiment


@pytest.fixture
def job():
  config = experiment.stage_config(tiny.get_config(), 'xe')
  sizes = data_sizes.from_config_file('configs/quickstart.py', config)
  return Job(config, 'xe', 'step', 21, sizes, read_topology('v5e:2x4'))


@pytest.fixture
def run(job, tmp_path):
  """``run(source, timeout)``: the report of a process that runs a source."""

  def run(source, timeout=60.0):
    (tmp_path / 'substitute.py').write_text(source)
    path = {'PYTHONPATH': str(tmp_path)}
    return run_job(job, path, timeout, lambda seconds: None, module='substitute')

  return run


def test_a_report(run):
  report = run(
    'import json, os, sys\n'
    'job, report, parent = sys.argv[1:]\n'
    'assert int(parent) == os.getppid()\n'
    'assert open(job, "rb").read(1)\n'
    'open(report, "w").write(json.dumps({"stage": "xe", "program": "step", "length": 3}))\n'
  )
  assert (report.stage, report.length, report.error) == ('xe', 3, '')


def test_a_time_limit_ends_the_process_and_its_children(run, tmp_path):
  source = (
    'import pathlib, subprocess, sys, time\n'
    'code = "import time, pathlib; time.sleep(2); pathlib.Path(\'late\').touch()"\n'
    f'subprocess.Popen([sys.executable, "-c", code], cwd={str(tmp_path)!r})\n'
    'time.sleep(60)\n'
  )
  start = time.monotonic()
  report = run(source, timeout=1.0)
  assert time.monotonic() - start < 20
  assert '1 s' in report.error
  assert '--compile_timeout' in report.error
  time.sleep(2.5)
  assert not (tmp_path / 'late').exists()


def test_a_crash(run):
  report = run('import os, signal\nos.kill(os.getpid(), signal.SIGABRT)\n')
  assert 'SIGABRT' in report.error


def test_too_little_memory_on_this_machine(run):
  report = run('import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n')
  assert 'SIGKILL' in report.error
  assert 'memory' in report.error


def test_an_error_of_the_process(run):
  report = run('raise ValueError("no such flag")\n')
  assert report.error.endswith('ValueError: no such flag')
  assert (report.stage, report.program, report.length) == ('xe', 'step', 21)
