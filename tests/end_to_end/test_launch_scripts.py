"""Linters accept the shell scripts and Dockerfiles."""

import pathlib
import re
import subprocess
import sys

import pytest
from setuptools import find_packages

from launch import tpu_vm

LAUNCH = pathlib.Path(tpu_vm.__file__).parent
ROOT = LAUNCH.parent
DOCKERFILES = sorted((LAUNCH / 'docker').iterdir())


def lint(program: str, *words, text: str | None = None) -> str:
  """The output of a linter of this Python environment; '' if it finds nothing."""
  path = pathlib.Path(sys.executable).with_name(program)
  run = subprocess.run([path, *words], capture_output=True, text=True, input=text)
  assert bool(run.stdout) == bool(run.returncode), run.stderr
  return run.stdout


@pytest.mark.parametrize('path', [*DOCKERFILES, ROOT / 'Dockerfile'], ids=lambda path: path.name)
def test_dockerfiles(path):
  assert lint('hadolint', path) == ''


def test_images_have_one_version_of_jax():
  texts = [path.read_text() for path in (*DOCKERFILES, ROOT / 'Dockerfile')]
  assert len({re.search('^ARG JAX_VERSION=(.+)$', text, re.M)[1] for text in texts}) == 1


def test_images_get_all_that_is_installed():
  """setup.py and what it reads; .dockerignore leaves out everything else."""
  copied = {line[1:] for line in (ROOT / '.dockerignore').read_text().split() if line[0] == '!'}
  found = find_packages(str(ROOT), include=['vidcap_jax', 'data_prep', 'configs', 'launch'])
  assert copied == {*found, 'setup.py', 'pyproject.toml', 'README.md', 'LICENSE'}


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
