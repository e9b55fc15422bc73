"""The wheel: what is in it, and that it works in a fresh environment from an empty folder."""

import email
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile

import pytest

from vidcap_jax import __version__

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ('vidcap_jax', 'data_prep', 'configs', 'launch')
OTHERS = ('benchmarks', 'examples', 'tests')  # which are not installed
# Bytes. Nearly all of the wheel is code, so data that got in would be a larger file than any of it.
LARGEST, LARGEST_FILE = 1_250_000, 50_000
# The smallest quickstart: four steps on twelve rendered clips.
SMALL = (
  '--config.data.recipe.videos=12',
  '--config.train.epochs=2',
  '--config.train.batch_size=8',
  '--config.decode.method=greedy',
  '--config.eval.splits=()',
  '--config.log.pictures=false',
  "--config.eval.metrics=('CIDEr',)",
)


@pytest.fixture(scope='module')
def source(tmp_path_factory) -> pathlib.Path:
  """A copy of the project: building writes next to setup.py."""
  copy = tmp_path_factory.mktemp('source') / 'project'
  copy.mkdir()
  for name in ('setup.py', 'pyproject.toml', 'README.md', 'LICENSE', 'CHANGELOG.md'):
    shutil.copy(ROOT / name, copy)
  leave_out = shutil.ignore_patterns('__pycache__', '*.egg-info')
  for name in PACKAGES:
    shutil.copytree(ROOT / name, copy / name, ignore=leave_out)
  for name in OTHERS:
    (copy / name).mkdir()
    for module in (ROOT / name).glob('*.py'):
      shutil.copy(module, copy / name)
  return copy


@pytest.fixture(scope='module')
def built(source) -> tuple[pathlib.Path, pathlib.Path]:
  """The sdist, and the wheel that is built from it."""
  folder = source.parent / 'dist'
  build = [sys.executable, '-m', 'build', '--no-isolation', f'--outdir={folder}', source]
  run = subprocess.run(build, capture_output=True, text=True, env=environment())
  assert run.returncode == 0, run.stdout + run.stderr
  (sdist,), (wheel,) = folder.glob('*.tar.gz'), folder.glob('*.whl')
  return sdist, wheel


@pytest.fixture(scope='module')
def installed(built, tmp_path_factory) -> pathlib.Path:
  """The folder of programs of a fresh environment that has the wheel.

  It finds libraries where this environment has them. Editable installations in this environment
  are not found: the .pth files of a folder that a .pth file names are not read.
  """
  folder = tmp_path_factory.mktemp('environment')
  subprocess.run([sys.executable, '-m', 'venv', '--without-pip', folder], check=True)
  python = folder / 'bin' / 'python'
  (site_packages,) = folder.glob('lib/python*/site-packages')
  paths = sysconfig.get_paths()
  libraries = dict.fromkeys((paths['purelib'], paths['platlib']))
  (site_packages / 'libraries.pth').write_text('\n'.join(libraries))
  install = [sys.executable, '-m', 'pip', f'--python={python}', 'install', '--no-deps']
  done = subprocess.run(
    [*install, '--no-index', '--disable-pip-version-check', built[1]],
    capture_output=True,
    text=True,
    env=environment(),
  )
  assert done.returncode == 0, done.stderr
  return python.parent


@pytest.fixture(scope='module')
def run(installed, tmp_path_factory):
  """Runs a program of the fresh environment in an empty folder; (stdout, stderr) of a success."""
  empty = tmp_path_factory.mktemp('empty')
  cache = tmp_path_factory.mktemp('cache')

  def run_program(*words: str) -> tuple[str, str]:
    done = subprocess.run(
      [str(installed / words[0]), *words[1:]],
      cwd=empty,
      env={**environment(), 'XDG_CACHE_HOME': str(cache)},
      capture_output=True,
      text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr

  return run_program


def environment() -> dict[str, str]:
  """This environment without the folders that tests are imported from."""
  return {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}


def test_the_wheel_has_all_of_the_packages_and_nothing_else(built, source):
  wheel = built[1]
  assert wheel.stat().st_size < LARGEST
  with zipfile.ZipFile(wheel) as archive:
    sizes = {info.filename: info.file_size for info in archive.infolist() if not info.is_dir()}
  names = set(sizes)
  of_packages = {name for name in names if '.dist-info/' not in name}
  assert not [name for name in of_packages if sizes[name] > LARGEST_FILE]
  files = {
    str(path.relative_to(source))
    for package in PACKAGES
    for path in (source / package).rglob('*')
    if path.is_file() and not {'__pycache__', 'build'} & {*path.parts}
  }
  assert of_packages == files
  assert 'vidcap_jax/py.typed' in files
  parts = {name.partition('.dist-info/')[2] for name in names - of_packages}
  assert {'METADATA', 'RECORD', 'WHEEL', 'entry_points.txt', 'licenses/LICENSE'} <= parts


def test_the_sdist_has_no_tests(built):
  with tarfile.open(built[0]) as archive:
    names = {name.partition('/')[2] for name in archive.getnames()}
  assert {'setup.py', 'pyproject.toml', 'README.md', 'LICENSE', 'launch/slurm.sbatch'} <= names
  assert not [name for name in names if name.split('/')[0] in OTHERS]


def test_metadata(built):
  with zipfile.ZipFile(built[1]) as archive:
    (name,) = [name for name in archive.namelist() if name.endswith('/METADATA')]
    data = email.message_from_bytes(archive.read(name))
  assert (data['Name'], data['Version']) == ('vidcap_jax', __version__)
  assert data['License-Expression'] == 'Apache-2.0'
  assert data['Requires-Python'] == '>=3.11'
  assert data['Keywords']
  assert data['Description-Content-Type'] == 'text/markdown'
  description = str(data.get_payload(decode=True), 'utf-8').strip()
  assert description == (ROOT / 'README.md').read_text(encoding='utf-8').strip()
  # The versions that docs/install.md has test runs of.
  rows = re.findall(r'^\| (3\.\d+)\.\d+ \| ', (ROOT / 'docs' / 'install.md').read_text(), re.M)
  listed = [c.rpartition(' :: ')[2] for c in data.get_all('Classifier', ())]
  assert {*rows} == {version for version in listed if re.fullmatch(r'3\.\d+', version)}
  lowest = data.get_all('Requires-Dist', ())
  assert {'numpy>=1.26.1', 'jax>=0.7.1'} <= {*lowest}
  # Named as in the metadata, since the pip of Debian's Python 3.11 only warns of other spellings.
  files = [ROOT / '.ci' / 'run', *ROOT.glob('*.md'), *ROOT.glob('docs/**/*.md')]
  files += (ROOT / 'vidcap_jax').rglob('*.py')
  lists = re.findall(r"(?:'\.|vidcap_jax)\[([\w,-]+)\]'", '\n'.join(f.read_text() for f in files))
  named = {extra for names in lists for extra in names.split(',')}
  assert 'tpu-compile' in named
  assert named <= {*data.get_all('Provides-Extra')}


def test_the_version_is_written_once():
  citation = (ROOT / 'CITATION.cff').read_text()
  assert re.search(r'^version: (.*)$', citation, re.M)[1] == __version__
  assert 'version=VERSION' in (ROOT / 'setup.py').read_text()


def test_importing_is_fast(run):
  program = (
    'import sys, time; start = time.process_time(); import vidcap_jax;'
    "print(time.process_time() - start, 'jax' in sys.modules, vidcap_jax.__version__)"
  )
  seconds, imported_jax, version = run('python', '-c', program)[0].split()
  assert float(seconds) < 0.3
  assert (imported_jax, version) == ('False', __version__)


def test_the_command(run):
  assert 'vidcap train' in run('vidcap', '--help')[0]
  assert run('vidcap', '--version')[0].startswith(f'vidcap {__version__} ')
  assert run('python', '-m', 'vidcap_jax', '--help') == run('vidcap', '--help')


def test_launchers(run):
  flags = ('--dry_run', '--', '--config=configs/quickstart.py')
  assert '-m vidcap_jax.main' in run('python', '-m', 'launch.local', *flags)[0]
  words = shlex.split(run('python', '-m', 'launch.slurm', *flags)[0])
  (script,) = [word for word in words if word.endswith('slurm.sbatch')]
  assert pathlib.Path(script).is_file()


def test_from_rendered_clips_to_captions(run):
  flags = ('--config=configs/quickstart.py:tiny,runlocal', '--workdir=first')
  printed, _ = run('vidcap', 'train', *flags, *SMALL)
  assert re.search(r'step 4/4 .*loss', printed)
  clip = 'first/data/videos/shapes00000.mp4'
  line = json.loads(run('vidcap', 'predict', '--checkpoint=first', f'--inputs={clip}')[0])
  assert line['video_id'] == 'shapes00000'
  assert line['caption']
  program = (
    f"import vidcap_jax as vc; result = vc.load('first').caption({clip!r})[0];"
    'print(result.video_id, result.caption)'
  )
  assert run('python', '-c', program)[0] == f'shapes00000 {line["caption"]}\n'
