"""Linters accept the shell scripts and Dockerfiles."""

import pathlib
import subprocess
import sys

import pytest

from launch import tpu_vm

LAUNCH = pathlib.Path(tpu_vm.__file__).parent
DOCKERFILES = sorted((LAUNCH / 'docker').iterdir())


def lint(program: str, *words, text: str | None = None) -> str:
  """The output of a linter of this Python environment; '' if it finds nothing."""
  path = pathlib.Path(sys.executable).with_name(program)
  run = subprocess.run([path, *words], capture_output=True, text=True, input=text)
  assert bool(run.stdout) == bool(run.returncode), run.stderr
  return run.stdout


@pytest.mark.parametrize('path', DOCKERFILES, ids=lambda path: path.name)
def test_dockerfiles(path):
  assert lint('hadolint', path) == ''


def test_each_accelerator_has_a_dockerfile():
  assert [path.name for path in DOCKERFILES] == [
    f'{kind}.Dockerfile' for kind in ('cpu', 'gpu', 'tpu')
  ]


def test_the_linters_find_faults():
  assert 'DL3007' in lint('hadolint', '-', text='FROM python:latest\n')
  assert 'SC2086' in lint('shellcheck', '-', text='#!/bin/bash\nrm $1\n')


def test_shell_scripts():
  assert lint('shellcheck', LAUNCH / 'slurm.sbatch', LAUNCH / 'tpu_worker.sh') == ''


def test_the_tpu_script():
  script = tpu_vm.script(
    tpu_vm.STEPS,
    ['--config=a b'],
    name='cap',
    location=['--zone=z'],
    options=['--spot'],
    python='3.12',
    worker=0,
  )
  assert lint('shellcheck', '--shell=bash', '-', text=script) == ''
