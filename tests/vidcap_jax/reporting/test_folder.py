import json
import re
import shutil
import subprocess

import pytest

from tests.vidcap_jax.reporting import results
from vidcap_jax.errors import UserError
from vidcap_jax.reporting import folder


def test_json_in_a_program_has_no_tags_and_keeps_its_value():
  value = {'id': [results.HOSTILE, 'a\u2028b', 'ü']}
  text = folder.script_json(value)
  assert not re.search('[<>&\u2028\u2029]', text)
  assert json.loads(text) == value


def test_numbers_that_are_not_finite_are_null():
  value = {'loss': [1.5, float('nan'), -float('inf')], 'n': 3}
  assert json.loads(folder.script_json(value)) == {'loss': [1.5, None, None], 'n': 3}


def test_files_of_about_one_size_in_order(tmp_path, monkeypatch):
  monkeypatch.setattr(folder, 'SHARD_CHARACTERS', 50)
  folder.prepare(tmp_path)
  values = [['x' * (7 * i)] for i in range(9)]
  starts = folder.write_shards(tmp_path, 'texts', values)
  read = [results.read_data(tmp_path, f'texts-{i:03}') for i in range(len(starts))]
  assert [value for part in read for value in part] == values
  assert starts == [sum(map(len, read[:i])) for i in range(len(read))]
  assert len(starts) > 2


def test_nothing_to_write_makes_no_file(tmp_path):
  folder.prepare(tmp_path)
  assert folder.write_shards(tmp_path, 'attention', []) == []
  assert not list((tmp_path / 'data').iterdir())


def test_a_folder_with_other_files_is_refused_and_a_report_replaced(tmp_path):
  (tmp_path / 'notes.txt').write_text('mine')
  with pytest.raises(UserError, match='--output'):
    folder.check(tmp_path)
  report = tmp_path / 'report'
  folder.check(report)
  folder.prepare(report)
  folder.write_data(report, 'summary', {})
  folder.write_data(report, 'texts-000', [])
  (report / 'notes.txt').write_text('mine')
  folder.check(report)
  folder.prepare(report)
  assert not (report / 'data' / 'texts-000.js').exists()
  assert (report / 'notes.txt').exists()


def test_an_interrupted_report_is_replaced(tmp_path):
  """Wherever it was interrupted. Until it is whole, its page says that it is not."""
  folder.prepare(tmp_path)
  assert 'not finished' in (tmp_path / 'index.html').read_text()
  folder.check(tmp_path)
  folder.prepare(tmp_path)
  folder.write_page(tmp_path, 'val')
  assert 'not finished' not in (tmp_path / 'index.html').read_text()
  shutil.rmtree(tmp_path / 'data')
  folder.check(tmp_path)


def test_the_title_is_escaped(tmp_path):
  folder.prepare(tmp_path)
  folder.write_page(tmp_path, results.HOSTILE)
  page = (tmp_path / 'index.html').read_text()
  assert '<img' not in page
  assert '{{' not in page


def test_modules_are_joined_into_one_program():
  program = folder.program()
  assert not re.search(r'^(import|export)\b', program, re.MULTILINE)
  for name, imported in re.findall(r'^const (\{[^}]+\}) = modules\.(\w+);', program, re.MULTILINE):
    position = program.index(f'modules.{imported} = ')
    body = program[position : program.index('})();', position)]
    exported = set(re.findall(r'\w+', body.rpartition('return {')[2]))
    assert set(re.findall(r'\w+', name)) <= exported
  for setter in ('innerHTML', 'outerHTML', 'insertAdjacentHTML', 'document.write', 'eval('):
    assert setter not in program
  if node := shutil.which('node'):
    subprocess.run([node, '--check', '-'], input=program, text=True, check=True, timeout=60)
