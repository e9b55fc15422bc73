"""An export used by the example, where nothing of this project is installed."""

import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from tests.exported import ONE_STREAM, SCRIPT, restored_of, serve
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.inference import export, predict


@pytest.fixture(scope='module')
def checkpoint():
  return restored_of(ONE_STREAM)


@pytest.fixture(scope='module')
def folder(checkpoint, tmp_path_factory):
  out = tmp_path_factory.mktemp('export') / 'out'
  export.export(checkpoint, out)
  return out


@pytest.fixture
def features(tmp_path):
  """A folder of features of the only stream, with short and long videos."""
  (tmp_path / 'image').mkdir()
  rng = np.random.default_rng(5)
  for frames in (1, 3, 4, 11):
    x = rng.normal(size=(frames, 8)).astype(np.float32)
    x[:, frames % 3] += 5
    np.save(tmp_path / 'image' / f'v{frames}.npy', x)
  return tmp_path / 'image'


@pytest.fixture(scope='module')
def run_isolated(tmp_path_factory):
  """Runs a script in an environment with only jax, its dependencies, and flatbuffers."""
  site = tmp_path_factory.mktemp('site')
  for name in ('jax', 'jaxlib', 'numpy', 'ml_dtypes', 'opt_einsum', 'scipy', 'flatbuffers'):
    origin = importlib.util.find_spec(name).origin
    (site / name).symlink_to(pathlib.Path(origin).parent)
    libraries = pathlib.Path(origin).parents[1] / f'{name}.libs'
    if libraries.exists():
      (site / libraries.name).symlink_to(libraries)
  code = f'import runpy, sys; sys.path.append({str(site)!r}); sys.argv = sys.argv[1:]'
  code += "; runpy.run_path(sys.argv[0], run_name='__main__')"

  def run(*argv):
    return subprocess.run(
      [sys.executable, '-I', '-S', '-c', code, *map(str, argv)],
      cwd=site.parent,
      capture_output=True,
      text=True,
    )

  return run


def test_the_environment_lacks_other_packages(run_isolated, tmp_path):
  script = tmp_path / 'script.py'
  for name in ('vidcap_jax', 'flax', 'tensorflow_datasets'):
    script.write_text(f'import numpy, {name}')
    assert f"No module named '{name}'" in run_isolated(script).stderr


def test_the_example_captions_like_predict(run_isolated, folder, features, checkpoint, capsys):
  np.save(features / 'wide.npy', np.ones((2, 9), np.float32))
  (features / 'empty.npy').touch()
  (features / 'text.npy').write_text('no array')
  predicted = predict.predict(checkpoint, f'image={features}')
  expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  run = run_isolated(SCRIPT, f'--export={folder}', f'--features=image={features}', '--batch_size=3')
  assert (predicted, run.returncode) == (1, 1), run.stderr
  empty, text, wide = run.stderr.splitlines()
  assert empty.startswith(f'{features}/empty.npy: ')
  assert text.startswith(f'{features}/text.npy: ')
  assert re.search(r'wide\.npy: .*\(2, 9\).*\(None, 8\)', wide)
  printed = [json.loads(line) for line in run.stdout.splitlines()]
  assert len(printed) == 4
  assert len({line['caption'] for line in printed}) > 1
  texts = lambda lines: [  # noqa: E731
    (line['video_id'], line['caption'], *(c['caption'] for c in line['captions'])) for line in lines
  ]
  assert texts(printed) == texts(expected)
  scores = lambda lines: [[c['log_prob'] for c in line['captions']] for line in lines]  # noqa: E731
  np.testing.assert_allclose(scores(printed), scores(expected), rtol=1e-4)


def test_files_of_an_export(folder, checkpoint):
  manifest = json.loads((folder / 'manifest.json').read_text())
  (stream,) = manifest['streams']
  assert stream['axes'] == ['b', 't_image', 8]
  assert (stream['block'], stream['longest'], stream['kind']) == (1, 4, 'sequence')
  assert manifest['decode']['beam']['n_best'] == 2
  assert manifest['decode']['greedy']['n_best'] == 1
  assert manifest['versions']['jax'] == jax.__version__
  for method in export.METHODS:
    program = jax.export.deserialize(bytearray((folder / f'{method}.bin').read_bytes()))
    assert program.platforms == ('cpu', 'cuda', 'tpu')
    assert [str(x.shape[0]) for x in program.in_avals][-2:] == ['b', 'b']
  with np.load(folder / 'parameters.npz') as saved:
    names = set(saved.files)
  assert names == set(export.by_name(checkpoint.params))
  vocabulary = json.loads((folder / 'vocabulary.json').read_text())
  assert Vocabulary.from_dict(vocabulary).hash == manifest['vocabulary_hash']


def test_a_wrong_shape_is_an_error_of_the_call(folder):
  manifest, _, caption = serve.load(folder, 'greedy')
  inputs = serve.batch_of({'v': {'image': np.ones((2, 8), np.float16)}}, manifest, 1)
  inputs['features']['image'] = inputs['features']['image'][..., :7]
  with pytest.raises(ValueError, match=r'features.*image.*7'):
    caption(inputs)


# ---------------------------------------------------------------- errors


def run_main(argv, capsys) -> tuple[int, str]:
  """The exit code and stderr."""
  code = serve.main([str(part) for part in argv])
  out, err = capsys.readouterr()
  assert out == ''
  return code, err


def copied(folder, tmp_path, change=None) -> pathlib.Path:
  """A copy of an export, with a changed manifest."""
  copy = tmp_path / 'copy'
  copy.mkdir()
  for path in folder.iterdir():
    (copy / path.name).write_bytes(path.read_bytes())
  if change:
    manifest = json.loads((copy / 'manifest.json').read_text())
    (copy / 'manifest.json').write_text(json.dumps({**manifest, **change}))
  return copy


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'format_version': 2}, 'format version 2'),
    ({'length': 99}, 'manifest.json'),
  ],
)
def test_a_changed_manifest(change, message, folder, features, tmp_path, capsys):
  copy = copied(folder, tmp_path, change)
  argv = [f'--export={copy}', f'--features=image={features}']
  code, err = run_main(argv, capsys)
  assert code == 1
  assert message in err


@pytest.mark.parametrize(
  ('name', 'damage', 'message'),
  [
    ('beam.bin', lambda data: data[:-1], 'checksum'),
    ('parameters.npz', lambda data: data + b' ', 'checksum'),
    ('vocabulary.json', None, 'no such file'),
    ('manifest.json', None, 'no export: .*No such file'),
    ('manifest.json', lambda data: data[:50], 'no export: '),
  ],
)
def test_damaged_files(name, damage, message, folder, features, tmp_path, capsys):
  copy = copied(folder, tmp_path)
  data = (copy / name).read_bytes()
  (copy / name).unlink()
  if damage:
    (copy / name).write_bytes(damage(data))
  code, err = run_main([f'--export={copy}', f'--features=image={features}'], capsys)
  assert (code, err.count('\n')) == (1, 1)
  assert re.match(f'error: {copy}.*{message}', err)


def test_another_version_of_jax_or_device(folder, features, capsys, monkeypatch):
  argv = [f'--export={folder}', f'--features=image={features}']
  with monkeypatch.context() as patch:
    patch.setattr(serve.jax_export, 'maximum_supported_calling_convention_version', 9)
    code, err = run_main(argv, capsys)
  assert code == 1
  assert re.search(r'calling convention 10.* 9 to 9', err)
  monkeypatch.setattr(jax, 'default_backend', lambda: 'rocm')
  code, err = run_main(argv, capsys)
  assert code == 1
  assert 'cpu, cuda, tpu, not rocm' in err


@pytest.mark.parametrize(
  ('given', 'message'),
  [
    ('motion=DIR', 'streams image: image=FOLDER'),
    ('image=DIR,motion=DIR', 'streams image: image=FOLDER'),
    ('DIR', 'streams image: image=FOLDER'),
    ('image=/nowhere', '--features: /nowhere: no such folder'),
  ],
)
def test_wrong_folders(given, message, folder, features, capsys):
  flag = f'--features={given.replace("DIR", str(features))}'
  code, err = run_main([f'--export={folder}', flag], capsys)
  assert code == 1
  assert message in err


@pytest.mark.parametrize(
  ('array', 'message'),
  [
    (np.zeros((8,)), r'\(8,\).* \(None, 8\)'),
    (np.zeros((2, 7)), r'\(2, 7\)'),
    (np.zeros((0, 8)), 'empty'),
    (np.full((2, 8), np.nan), 'NaN'),
    (np.full((2, 8), 1e6), 'too large for float16'),
    (np.full((2, 8), 'x'), '<U1'),
    (None, 'no such file'),
  ],
)
def test_wrong_features(array, message, folder):
  (stream,) = json.loads((folder / 'manifest.json').read_text())['streams']
  with pytest.raises(serve.InputError, match=message):
    serve.check(array, stream)
