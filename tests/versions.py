"""Runs the tests with the lowest or the newest library versions that setup.py allows.

    python -m tests.versions --lowest
    python -m tests.versions --newest --python=python3.13 -- -m slow

uv creates a fresh environment in a temporary folder, which is removed afterwards. Arguments after
``--`` are passed to pytest. The last line is a row for the table in docs/install.md.
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LIBRARIES = ('jax', 'flax', 'numpy', 'optax', 'orbax-checkpoint', 'grain', 'av')
RESOLUTION = {'lowest': 'lowest-direct', 'newest': 'highest'}


def main(arguments: list[str] | None = None) -> int:
  """Installs, runs the tests, prints the row; returns pytest's exit status."""
  parser = argparse.ArgumentParser(
    prog='python -m tests.versions',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  which = parser.add_mutually_exclusive_group(required=True)
  which.add_argument('--lowest', dest='which', action='store_const', const='lowest')
  which.add_argument('--newest', dest='which', action='store_const', const='newest')
  parser.add_argument('--python', default=sys.executable, help='interpreter (default: this one)')
  parser.add_argument('--extra', default='test', help='extra to install (default: %(default)s)')
  parser.add_argument('pytest', nargs='*', metavar='-- PYTEST_ARGUMENT')
  options = parser.parse_args(arguments)
  with tempfile.TemporaryDirectory() as folder:
    python = install(pathlib.Path(folder), options.python, options.which, options.extra)
    status, summary = run_tests(python, options.pytest)
    print(row(python, options.which, summary))
  return status


def install(folder: pathlib.Path, python: str, which: str, extra: str) -> pathlib.Path:
  """Creates an environment with the project and its libraries; returns its interpreter."""
  interpreter = folder / 'bin' / 'python'
  subprocess.run([python, '-m', 'venv', folder], check=True)
  subprocess.run([interpreter, '-m', 'pip', 'install', '-q', 'uv'], check=True)
  environment = dict(os.environ)
  if 'PIP_CERT' in environment:  # uv reads another variable than pip
    environment.setdefault('SSL_CERT_FILE', environment['PIP_CERT'])
  command = [interpreter, '-m', 'uv', 'pip', 'install', '-q', f'--python={interpreter}']
  command += [f'--resolution={RESOLUTION[which]}', '-e', f'.[{extra}]']
  subprocess.run(command, check=True, cwd=ROOT, env=environment)
  return interpreter


def run_tests(python: pathlib.Path, arguments: list[str]) -> tuple[int, str]:
  """Runs pytest and prints its output; returns its exit status and last line."""
  command = [python, '-m', 'pytest', '-q', *arguments]
  last = ''
  with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
    for line in process.stdout or ():
      print(line, end='', flush=True)
      last = line.strip() or last
  return process.returncode, last.strip('= ')


def row(python: pathlib.Path, which: str, summary: str) -> str:
  """A row for the table in docs/install.md."""
  listed = subprocess.run(
    [python, '-m', 'pip', 'list', '--format=freeze'], check=True, capture_output=True, text=True
  ).stdout
  versions = dict(re.findall(r'^([^=\n]+)==(.+)$', listed, re.MULTILINE))
  version = subprocess.run(
    [python, '--version'], check=True, capture_output=True, text=True
  ).stdout.split()[-1]
  cells = [version, which, *(versions[name] for name in LIBRARIES), summary]
  return f'| {" | ".join([*cells, datetime.date.today().isoformat()])} |'


if __name__ == '__main__':
  sys.exit(main())
