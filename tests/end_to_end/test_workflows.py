"""GitHub's workflows have the form that GitHub reads, and run scripts that exist."""

import pathlib
import re
import subprocess
import sys

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / '.github' / 'workflows').glob('*.yml'))


def check(path: pathlib.Path) -> subprocess.CompletedProcess[str]:
  program = pathlib.Path(sys.executable).with_name('check-jsonschema')
  words = [program, '--builtin-schema=vendor.github-workflows', path]
  return subprocess.run(words, capture_output=True, text=True)


def steps(path: pathlib.Path) -> list[dict]:
  jobs = yaml.safe_load(path.read_text())['jobs'].values()
  return [step for job in jobs for step in job['steps']]


@pytest.mark.parametrize('path', WORKFLOWS, ids=lambda path: path.name)
def test_the_form(path, tmp_path):
  done = check(path)
  assert done.returncode == 0, done.stdout
  wrong = tmp_path / 'wrong.yml'
  wrong.write_text(path.read_text().replace('steps:', 'stepz:'))
  assert 'stepz' in check(wrong).stdout


@pytest.mark.parametrize('path', WORKFLOWS, ids=lambda path: path.name)
def test_scripts_exist(path):
  for step in steps(path):
    command = step.get('run', '')
    for script in re.findall(r'(?<!\S)(\.\S*/\S+)', command):
      assert (ROOT / script).stat().st_mode & 0o100, script
    for module in re.findall(r'python -m ([\w.]+)', command):
      file = ROOT.joinpath(*module.split('.'))
      assert file.with_suffix('.py').is_file() or (file / '__main__.py').is_file(), module


def test_every_push_runs_the_checks_and_every_night_the_slow_tests():
  commands = {path.stem: [step.get('run') for step in steps(path)] for path in WORKFLOWS}
  assert '.ci/run' in commands['ci']
  assert '.ci/run nightly' in commands['nightly']
  assert 'cron' in (ROOT / '.github' / 'workflows' / 'nightly.yml').read_text()


def test_the_versions_of_python_are_those_of_the_install_page():
  jobs = yaml.safe_load((ROOT / '.github' / 'workflows' / 'ci.yml').read_text())['jobs']
  page = (ROOT / 'docs' / 'install.md').read_text()
  assert {*jobs['checks']['strategy']['matrix']['python']} == {
    *re.findall(r'^\| (3\.\d+)\.\d+ \| ', page, re.M)
  }
