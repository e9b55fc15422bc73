"""Files, functions and links that the contributors' pages name are there."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = (
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'docs/architecture.md',
  'docs/extending.md',
)
FOLDERS = 'vidcap_jax|data_prep|configs|tests|benchmarks|launch|examples'


@pytest.mark.parametrize('page', PAGES)
def test_files_functions_and_links(page):
  path = ROOT / page
  text = path.read_text()
  missing = []
  for target in re.findall(r'\]\(([^)#:]+)\)', text):
    if not (path.parent / target).exists():
      missing.append(f'link to {target}')
  # In backticks: vidcap_jax/a/b.py or vidcap_jax/a/b.py:name.
  for file, name in re.findall(rf'`((?:{FOLDERS})/[\w/.]*)(?::(\w+))?`', text):
    if not (ROOT / file).exists():
      missing.append(file)
    elif name and name not in _defined(ROOT / file):
      missing.append(f'{name} in {file}')
  assert not missing, f'{page}: not there: {", ".join(missing)}'


def test_files_in_the_readme_tree():
  tree = (ROOT / 'README.md').read_text().partition('## Where things are')[2].partition('\n## ')[0]
  named = set(re.findall(r'[a-z0-9_]+\.py\b', tree))
  there = {path.name for folder in FOLDERS.split('|') for path in (ROOT / folder).rglob('*.py')}
  assert len(named) > 100
  assert named <= there, f'README.md names files that are not there: {sorted(named - there)}'


def _defined(path: pathlib.Path) -> set[str]:
  body = ast.parse(path.read_text()).body
  return {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
