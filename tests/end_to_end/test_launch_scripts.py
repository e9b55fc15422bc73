"""Shell scripts and Dockerfiles, by their linters."""

import pathlib
import subprocess
import sys

import pytest

from launch import tpu_vm

LAUNCH = pathlib.Path(tpu_vm.__file__).parent
DOCKERFILES = sorted((LAUNCH / 'docker').iterdir())


def lint(program: str, *words, text: str | None = None) -> str:
  """What a linter, installed beside Python, says; '' if all is well."""
  path = pathlib.Path(sys.executable).with_name(program)
  run = subprocess.run([path, *words], capture_output=True, text=True, input=text)
  assert bool(run.stdout) == bool(run.returncode), run.stderr
  return run.stdout


@pytest.mark.parametrize('path', DOCKERFILES, ids=lambda path: path.name)
def test_dockerfiles(path):
  assert lint('hadolint', path) == ''


def test_there_is_one_for_each_accelerator():
  assert [path.name for path in DOCKERFILES] == [
    f'{kind}.Dockerfile' for kind in ('cpu', 'gpu', 'tpu')
  ]


def test_the_linter_finds_something():
  assert 'DL3007' in lint('hadolint', '-', text='FROM python:latest\n')
  assert 'SC2086' in lint('shellcheck', '-', text='#!/bin/bash\nrm $1\n')


def test_shell_scripts():
  assert lint('shellcheck', LAUNCH / 'slurm.sbatch', LAUNCH / 'tpu_worker.sh') == ''


def test_the_script_for_tpus():
  script = tpu_vm.script(
    tpu_vm.STEPS,
    ['--config=a b'],
    name='cap',
    where=['--zone=z'],
    new=['--spot'],
    python='3.12',
    worker=0,
  )
  assert lint('shellcheck', '--shell=bash', '-', text=script) == ''
