"""The import graph: what counts as an import, and what is drawn."""

from xml.etree import ElementTree

import pytest

from benchmarks import import_graph
from benchmarks.import_graph import Package
from vidcap_jax.errors import UserError

MODULES = dict.fromkeys(('a', 'a.b', 'c'))


def test_imports_inside_functions_count_and_other_projects_do_not(tmp_path):
  file = tmp_path / 'x.py'
  file.write_text('import numpy, c\nfrom a import b, name\ndef f():\n  from a.b import g\n')
  assert sorted(import_graph.find_imports(file, MODULES)) == ['a', 'a.b', 'a.b', 'c']


def test_a_relative_import_is_refused(tmp_path):
  file = tmp_path / 'x.py'
  file.write_text('\nfrom . import a\n')
  with pytest.raises(UserError, match='x.py:2.*relative'):
    list(import_graph.find_imports(file, MODULES))


def test_every_module_is_on_a_floor():
  for module in import_graph.find_modules():
    if module != 'vidcap_jax':
      assert import_graph.package_of(module) in import_graph.FLOOR
  with pytest.raises(UserError, match='LAYERS'):
    import_graph.package_of('nowhere.module')


def test_picture_has_each_package_with_its_lines_and_imports():
  packages = [
    Package('launch', 3, 1200, {'vidcap_jax.data': 71}),
    Package('vidcap_jax.data', 2, 340, {'vidcap_jax.errors': 5}),
    Package('vidcap_jax.errors', 1, 16, {}),
  ]
  svg = ElementTree.fromstring(import_graph.draw(packages))
  texts = [text for element in svg.iter() if (text := (element.text or '').strip())]
  for text in ('launch', '1,200', '340', '71', '5', 'data', 'errors.py'):
    assert text in texts
  assert 'vidcap_jax.data 71' in import_graph.table(packages)


def test_command_writes_the_picture(tmp_path, capsys):
  file = tmp_path / 'graph.svg'
  import_graph.main([f'--write={file}'])
  assert ElementTree.parse(file).getroot().tag.endswith('svg')
  assert 'vidcap_jax.training' in capsys.readouterr().out


def test_an_output_that_cannot_be_written_is_refused(tmp_path):
  with pytest.raises(SystemExit, match='missing'):
    import_graph.main([f'--write={tmp_path}/missing/graph.svg'])
