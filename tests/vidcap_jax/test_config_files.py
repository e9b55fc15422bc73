"""Loading config files, and what is missing in one that is refused."""

import pytest

from vidcap_jax import config_files
from vidcap_jax.errors import ConfigError

COMPLETE = """
VARIANTS = {'variant': ('a', 'b')}
STREAMS = ('a stream',)
VOCABULARY = 7


def get_config(variant=''):
  return variant
"""
DATA_SETS = """
VARIANTS = {'data': ('first', 'second'), 'variant': ('a', 'b')}
STREAMS = {'first': ('a stream',), 'second': ('another',)}
VOCABULARY = {'first': 7, 'second': 8}


def get_config(variant=''):
  return variant
"""


@pytest.fixture
def write(tmp_path):
  def write_file(text, name='mine.py'):
    path = tmp_path / name
    path.write_text(text)
    return str(path)

  return write_file


def test_the_files_of_the_project_are_found_from_any_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  config = config_files.load_config('configs/quickstart.py:runlocal')
  assert config.data.recipe.videos == 60
  assert config_files.current_source('configs/quickstart.py:x') == 'configs/quickstart.py:x'
  assert config_files.find_file('configs/quickstart.py').is_absolute()


def test_the_current_folder_comes_first(write, tmp_path, monkeypatch):
  (tmp_path / 'configs').mkdir()
  write(COMPLETE, 'configs/quickstart.py')
  monkeypatch.chdir(tmp_path)
  assert config_files.load('configs/quickstart.py').VOCABULARY == 7


@pytest.mark.parametrize(
  ('path', 'words'),
  [
    ('configs/quickstrt.py', 'configs/quickstart.py'),
    ('msvd_stat.py', 'configs/msvd_stats.py'),
    ('zzz.py', 'no such file$'),
    ('other/configs/quickstart.py', 'did you mean configs/quickstart.py'),
  ],
)
def test_a_file_that_does_not_exist(path, words, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(ConfigError, match=f'^--config={path}: .*{words}'):
    config_files.load(path)


def test_a_file_that_is_not_python(write):
  with pytest.raises(ConfigError, match='mine.txt: not a Python file'):
    config_files.load(write(COMPLETE, 'mine.txt'))


def test_a_complete_file_is_a_module(write):
  module = config_files.load(write(COMPLETE))
  assert module.get_config('b') == 'b'
  assert config_files.for_variant(module, 'VOCABULARY', 'b') == 7


def test_a_file_of_several_data_sets(write):
  module = config_files.load(write(DATA_SETS))
  assert config_files.for_variant(module, 'VOCABULARY', '') == 7
  assert config_files.for_variant(module, 'VOCABULARY', 'b,data=second') == 8
  assert config_files.for_variant(module, 'STREAMS', 'data=second') == ('another',)
  with pytest.raises(ConfigError, match='data=third'):
    config_files.for_variant(module, 'STREAMS', 'data=third')


@pytest.mark.parametrize('name', config_files.PURPOSES)
def test_a_missing_definition_is_named_with_its_purpose(write, name):
  path = write(COMPLETE.replace(name, f'{name}_'))
  with pytest.raises(ConfigError) as error:
    config_files.load(path)
  for part in (path, name, config_files.PURPOSES[name], 'configs/common.py'):
    assert part in str(error.value)
  config_files.load(path, [other for other in config_files.PURPOSES if other != name])


@pytest.mark.parametrize(
  ('text', 'old', 'new', 'named'),
  [
    (COMPLETE, "{'variant': ('a', 'b')}", "('a', 'b')", 'VARIANTS'),
    (COMPLETE, "('a', 'b')", "'ab'", "VARIANTS.'variant'"),
    (COMPLETE, "('a', 'b')", '()', "VARIANTS.'variant'"),
    (COMPLETE, '= 7', "= {'first': 7}", 'VOCABULARY.*data'),
    (COMPLETE, "('a stream',)", '3', 'STREAMS.*3.*Stream'),
    (COMPLETE, '= 7', "= 'many'", "VOCABULARY.*'many'"),
    (DATA_SETS, "('another',)", '3', "STREAMS.'second'.*3.*Stream"),
    (DATA_SETS, "{'first': 7, 'second': 8}", '7', 'VOCABULARY.*first, second'),
    (DATA_SETS, ", 'second': ('another',)", '', 'STREAMS.*first, second'),
  ],
)
def test_a_definition_of_another_form(write, text, old, new, named):
  assert old in text
  path = write(text.replace(old, new))
  with pytest.raises(ConfigError, match=f'{path}.*{named}'):
    config_files.load(path)


def test_a_missing_file():
  with pytest.raises(ConfigError, match='nothere.py'):
    config_files.load('nothere.py')


def test_a_file_under_its_earlier_name(write):
  current = write(DATA_SETS, 'current.py')
  earlier = write("RENAMED_TO = 'current.py:data=second'", 'earlier.py')
  assert config_files.current_source(earlier) == f'{current}:data=second'
  assert config_files.current_source(f'{earlier}:b') == f'{current}:data=second,b'
  assert config_files.current_source(f'{current}:b') == f'{current}:b'


def test_a_config_of_its_own_keys(write):
  path = write('from ml_collections import ConfigDict\nget_config = lambda: ConfigDict({"own": 1})')
  config = config_files.load_config(path)
  assert config.to_dict() == {'own': 1}
  assert config.is_locked


def test_a_replaced_section_is_completed_from_the_defaults(write):
  text = (
    'from ml_collections import ConfigDict\n'
    'from vidcap_jax.config_files import note_defaults\n'
    'def get_config():\n'
    '  c = ConfigDict({"a": {"x": 1.0, "y": {"z": ()}}, "stages": {"s": {}}})\n'
    '  note_defaults(c.lock())\n'
    '  c.a = CHANGE\n'
    '  return c\n'
  )
  config = config_files.load_config(write(text.replace('CHANGE', '{"x": 2}')))
  assert repr(config.a.x) == '2.0'
  assert config.a.y.to_dict() == {'z': ()}
  for change, message in (('{"v": 2}', 'config.a.v'), ('{"y": {"z": 3}}', 'config.a.y.z: .*tuple')):
    with pytest.raises(ConfigError, match=message):
      config_files.load_config(write(text.replace('CHANGE', change)))


def test_published_scores(write):
  assert config_files.published(write(COMPLETE)) == ()
  row = "{'row': 'a', 'split': 'test', 'scores': {'CIDEr': 31.8}}"
  (found,) = config_files.published(write(f'{COMPLETE}\nPUBLISHED = ({row},)\n'))
  assert found['scores'] == {'CIDEr': 31.8}
  with pytest.raises(ConfigError, match=r'PUBLISHED\[1\].*row, scores, split'):
    config_files.published(write(f"{COMPLETE}\nPUBLISHED = ({row}, {{'row': 'b'}})\n"))
