import sys

import pytest

from data_prep.build import main as build
from vidcap_jax import annotations, extensions, models
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.features.formats import open_features


@pytest.fixture
def own(tmp_path, monkeypatch):
  """A folder on Python's path, with a module."""
  (tmp_path / 'own_module.py').write_text('answer = 42\n\n\nclass Other:\n  pass\n')
  monkeypatch.syspath_prepend(tmp_path)
  yield tmp_path
  for name in ('own_module', 'broken_module'):
    sys.modules.pop(name, None)


def test_load(own):
  assert extensions.load('own_module:answer', 'model.name', ConfigError) == 42


@pytest.mark.parametrize(
  ('name', 'words'),
  [
    ('nowhere:Model', 'model.name.*nowhere'),
    ('own_module.below:Model', 'model.name.*own_module.below'),
    ('own_module:Model', 'model.name.*own_module.*Model'),
    (':Model', 'model.name'),
    ('own_module:', 'model.name.*own_module'),
  ],
)
def test_names_that_mean_nothing(own, name, words):
  with pytest.raises(ConfigError, match=words):
    extensions.load(name, 'model.name', ConfigError)


def test_errors_inside_a_module_are_shown_as_they_are(own):
  (own / 'broken_module.py').write_text('import a_module_that_is_not_there\n')
  with pytest.raises(ModuleNotFoundError, match='a_module_that_is_not_there'):
    extensions.load('broken_module:Model', 'model.name', ConfigError)


def test_objects_of_the_wrong_kind(own):
  with pytest.raises(ConfigError, match=r'model\.name.*answer.*Flax'):
    models.find('own_module:answer')
  with pytest.raises(ConfigError, match=r'model\.name.*Dense.*config'):
    models.find('flax.linen:Dense')
  with pytest.raises(DataError, match='--readers=image=own_module:Other.*FeatureReader'):
    open_features('image', own, reader='own_module:Other')
  with pytest.raises(DataError, match='--format.*answer.*function'):
    annotations.find('own_module:answer')


@pytest.mark.parametrize('form', ['youtube', 'nowhere:read'])
def test_build_refuses_an_unknown_format_before_it_reads(capsys, form):
  with pytest.raises(SystemExit):
    build([f'--format={form}', '--annotations=a', '--features=image=b', '--output=c'])
  assert form in capsys.readouterr().err.splitlines()[-1]
