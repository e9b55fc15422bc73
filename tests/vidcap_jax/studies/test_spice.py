"""SPICE: how the program is called, and how its output is read."""

import json
import pathlib
import stat
import sys

import pytest

from tests.vidcap_jax.studies.test_run_captions import CAPTIONS, evaluated
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.java import MetricError
from vidcap_jax.studies import spice

OUTPUT = pathlib.Path(__file__).with_name('golden') / 'spice_output.json'
IDS = ['v1', 'v2']
# Runs in place of Java: writes its arguments and input beside the jar, then runs ``action``.
FAKE_JAVA = """#!{python}
import pathlib, shutil, sys
if sys.argv[1:] == ['-version']:
  sys.exit('openjdk version "{version}" 2026-01-01')
classes = sys.argv[sys.argv.index('-cp') + 1].split(':')
jar, place = pathlib.Path(classes[0]), sys.argv.index('edu.anu.spice.SpiceScorer') + 1
out = sys.argv[sys.argv.index('-out') + 1]
jar.with_name('arguments.txt').write_text('\\n'.join(sys.argv[1:]))
shutil.copy(sys.argv[place], jar.with_name('input.json'))
{action}
"""


@pytest.fixture
def jars(tmp_path):
  folder = tmp_path / 'spice'
  (folder / 'lib').mkdir(parents=True)
  names = (spice.JAR, f'lib/{spice.CORENLP}.jar', f'lib/{spice.CORENLP}-models.jar')
  for name in names:
    (folder / name).touch()
  return folder


@pytest.fixture
def java(tmp_path, monkeypatch):
  """Replaces Java by a script that runs ``action``."""

  def install(action, version='1.8.0_402'):
    path = tmp_path / 'java'
    path.write_text(FAKE_JAVA.format(python=sys.executable, action=action, version=version))
    spice.major_version.cache_clear()
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(spice, 'require_java', lambda: str(path))

  install(f'shutil.copy({str(OUTPUT)!r}, out)')
  return install


def test_scores_are_read_by_video():
  scores = spice.read_output(OUTPUT.read_text(), IDS)
  assert scores['v1'] == {
    'SPICE': pytest.approx(2 / 3),
    'object': 1.0,
    'relation': None,
    'attribute': 0.0,
    'colour': None,
    'count': None,
    'size': None,
  }
  assert scores['v2']['colour'] == 1.0
  assert scores['v2']['count'] == 0.0
  means = spice.means(scores)
  assert means['SPICE'] == {'mean': pytest.approx((2 / 3 + 4 / 7) / 2), 'videos': 2}
  assert means['attribute'] == {'mean': pytest.approx(1 / 3), 'videos': 2}
  assert means['colour'] == {'mean': 1.0, 'videos': 1}
  assert means['size'] == {'mean': None, 'videos': 0}


def changed(index=0, remove=None, **changes):
  entries = json.loads(OUTPUT.read_text())
  entries[index].update(changes)
  if remove:
    del entries[index]['scores'][remove]
  return json.dumps(entries)


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('[]', "2 videos.*'v1'"),
    (changed(image_id=0), "two .*'v1'"),
    (changed(image_id=7), 'IndexError'),
    (changed(remove='Color'), 'Color'),
    ('{"a":', 'JSON'),
  ],
)
def test_output_of_another_form(text, message):
  with pytest.raises(MetricError, match=message):
    spice.read_output(text, IDS)


def test_the_program_gets_one_caption_and_all_references_of_each_video(jars, java):
  jar = spice.check_folder(str(jars))
  references = {'v1': ['a dog is running', 'dog'], 'v2': ['the red ball']}
  scores = spice.score(jar, CAPTIONS, references, memory='3G')
  assert scores == spice.read_output(OUTPUT.read_text(), IDS)
  assert json.loads((jars / 'input.json').read_text()) == [
    {'image_id': 0, 'test': 'a dog runs', 'refs': ['a dog is running', 'dog']},
    {'image_id': 1, 'test': 'a ball rolls', 'refs': ['the red ball']},
  ]
  arguments = (jars / 'arguments.txt').read_text().splitlines()
  assert '-Xmx3G' in arguments
  assert arguments[arguments.index('-cp') + 1] == f'{jar}:{jars}/lib/*'
  assert '-subset' in arguments


def test_a_program_that_fails_or_hangs(jars, java):
  jar = spice.check_folder(str(jars))
  java("sys.exit('Exception: no model')")
  with pytest.raises(MetricError, match='status 1.*no model'):
    spice.score(jar, CAPTIONS, {'v1': ['x'], 'v2': ['y']})
  java('import time; time.sleep(60)')
  with pytest.raises(MetricError, match='--time_limit'):
    spice.score(jar, CAPTIONS, {'v1': ['x'], 'v2': ['y']}, time_limit=1.0)


@pytest.mark.parametrize(
  'name', [spice.JAR, f'lib/{spice.CORENLP}.jar', f'lib/{spice.CORENLP}-models.jar']
)
def test_a_missing_jar_is_one_line_with_what_to_get(name, jars):
  (jars / name).unlink()
  with pytest.raises(UserError, match=f'--spice=.*{name}.*{spice.CORENLP_URL}') as error:
    spice.check_folder(str(jars))
  assert '\n' not in str(error.value)


def test_a_java_without_javascript_is_refused_before_the_work(jars, java):
  java('', version='17.0.15')
  with pytest.raises(UserError, match='--spice=.*Java 17.*nashorn-core.*/lib'):
    spice.check_folder(str(jars))
  (jars / 'lib' / 'nashorn-core-15.4.jar').touch()
  spice.check_folder(str(jars))
  (jars / 'lib' / 'nashorn-core-15.4.jar').unlink()
  java('', version='14.0.2')
  spice.check_folder(str(jars))


def test_the_command(tmp_path, jars, java, capsys):
  pytest.importorskip('matplotlib')
  references = tmp_path / 'references.json'
  references.write_text(json.dumps({'v1': ['x'], 'v2': ['y']}))
  runs = [str(evaluated(tmp_path / name)) for name in ('global', 'g2l')]
  arguments = [f'--runs={",".join(runs)}', f'--references={references}', f'--spice={jars}']
  spice.main([*arguments, f'--json={tmp_path}/x.json', f'--plot={tmp_path}/x.png'])
  result = json.loads((tmp_path / 'x.json').read_text())
  assert list(result['runs']) == ['global', 'g2l']
  assert result['runs']['g2l']['scores']['colour'] == {'mean': 1.0, 'videos': 1}
  assert result['runs']['g2l']['per_video']['v2']['count'] == 0.0
  header, *lines = capsys.readouterr().out.splitlines()
  assert header.split() == list(spice.PARTS.values())
  assert [line.split()[0] for line in lines] == ['global', 'g2l']
  assert lines[0].split()[-1] == '-'
  assert (tmp_path / 'x.png').read_bytes().startswith(b'\x89PNG')
  with pytest.raises(SystemExit, match='error: --spice=/nowhere'):
    spice.main([*arguments[:-1], '--spice=/nowhere'])
