"""The public names: imported when they are first used, each with an example that runs."""

import ast
import doctest
import inspect
import pathlib
import subprocess
import sys

import pytest

import vidcap_jax
from tests import tiny
from vidcap_jax.studies import run_pictures

ROOT = pathlib.Path(vidcap_jax.__file__).parents[1]


def test_importing_the_package_loads_nothing_heavy():
  code = (
    'import sys, time; began = time.process_time(); import vidcap_jax; '
    'print(time.process_time() - began, *sys.modules)'
  )
  done = subprocess.run(
    [sys.executable, '-c', code], capture_output=True, text=True, cwd=ROOT, check=True
  )
  seconds, *modules = done.stdout.split()
  assert float(seconds) < 0.3
  heavy = {
    'jax',
    'jaxlib',
    'numpy',
    'flax',
    'tensorflow',
    'grain',
    'absl',
    'ml_collections',
    'h5py',
  }
  assert not heavy & {*modules}
  assert [name for name in modules if name.startswith('vidcap_jax')] == ['vidcap_jax']


def test_names_for_type_checkers_are_those_at_run_time():
  """The imports under TYPE_CHECKING, ``__all__`` and the table agree."""
  tree = ast.parse(pathlib.Path(vidcap_jax.__file__).read_text())
  checked = next(node for node in tree.body if isinstance(node, ast.If))
  imported = {alias.name: node.module for node in checked.body for alias in node.names}
  assert imported == vidcap_jax._MODULES
  assert vidcap_jax.__all__ == sorted(imported)
  assert {*imported} <= {*dir(vidcap_jax)}
  assert (ROOT / 'vidcap_jax' / 'py.typed').is_file()


def test_unknown_names():
  with pytest.raises(AttributeError, match='captioner'):
    vidcap_jax.captioner  # noqa: B018
  from vidcap_jax import inference  # a package, not a public name

  assert inference.__name__ == 'vidcap_jax.inference'


@pytest.mark.parametrize('name', vidcap_jax.__all__)
def test_examples(name, inside, monkeypatch):
  """Every example of a public name gives the output that it shows."""
  public = getattr(vidcap_jax, name)
  assert inspect.getdoc(public)
  found = doctest.DocTestFinder(recurse=True).find(public, name, globs={})
  examples = [test for test in found if test.examples]
  assert examples
  runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
  monkeypatch.setattr(run_pictures, 'draw', lambda *_: None)  # slow
  with tiny.unscored_by_java():
    for test in examples:
      runner.run(test)
  assert not runner.failures
