"""An export used from outside: by the example, where nothing of this project is installed."""

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
  """A folder of features of the only stream: short and long videos."""
  (tmp_path / 'image').mkdir()
  rng = np.random.default_rng(5)
  for frames in (1, 3, 4, 11):
    x = rng.normal(size=(frames, 8)).astype(np.float32)
    x[:, frames % 3] += 5
    np.save(tmp_path / 'image' / f'v{frames}.npy', x)
  return tmp_path / 'image'


@pytest.fixture(scope='module')
def alone(tmp_path_factory):
  """Runs a script where nothing is installed but jax, what jax needs, and flatbuffers."""
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


def test_nothing_else_is_there(alone, tmp_path):
  script = tmp_path / 'script.py'
  for name in ('vidcap_jax', 'flax', 'tensorflow_datasets'):
    script.write_text(f'import numpy, {name}')
    assert f"No module named '{name}'" in alone(script).stderr


def test_the_example_alone(alone, folder, features, checkpoint, capsys):
  np.save(features / 'wide.npy', np.ones((2, 9), np.float32))
  (features / 'empty.npy').touch()
  (features / 'text.npy').write_text('no array')
  predicted = predict.predict(checkpoint, f'image={features}')
  expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  run = alone(SCRIPT, f'--export={folder}', f'--features=image={features}', '--batch_size=3')
  assert (predicted, run.returncode) == (1, 1), run.stderr
  assert run.stderr.splitlines() == [
    f'{features}/empty.npy: not a whole .npy file of numbers',
    f'{features}/text.npy: not a whole .npy file of numbers',
    f'{features}/wide.npy: it has shape (2, 9), the model was made for (None, 8) (None: any size)',
  ]
  made = [json.loads(line) for line in run.stdout.splitlines()]
  assert len(made) == 4
  assert len({line['caption'] for line in made}) > 1
  texts = lambda lines: [  # noqa: E731
    (line['video_id'], line['caption'], *(c['caption'] for c in line['captions'])) for line in lines
  ]
  assert texts(made) == texts(expected)
  scores = lambda lines: [[c['log_prob'] for c in line['captions']] for line in lines]  # noqa: E731
  np.testing.assert_allclose(scores(made), scores(expected), rtol=1e-4)


def test_what_is_written(folder, checkpoint):
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


def test_a_wrong_shape_at_the_call(folder):
  manifest, _, caption = serve.load(folder, 'greedy')
  inputs = serve.batch_of({'v': {'image': np.ones((2, 8), np.float16)}}, manifest, 1)
  inputs['features']['image'] = inputs['features']['image'][..., :7]
  with pytest.raises(ValueError, match=r'features.*image.*7'):
    caption(inputs)


# ---------------------------------------------------------------- what is refused


def said_by(argv, capsys) -> tuple[int, str]:
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
    ({'format_version': 2}, 'format version 2; this program reads 1'),
    ({'length': 99}, 'manifest.json was changed; export the model again'),
  ],
)
def test_another_manifest(change, message, folder, features, tmp_path, capsys):
  copy = copied(folder, tmp_path, change)
  argv = [f'--export={copy}', f'--features=image={features}']
  code, err = said_by(argv, capsys)
  assert code == 1
  assert message in err


@pytest.mark.parametrize(
  ('name', 'damage', 'message'),
  [
    ('beam.bin', lambda data: data[:-1], 'not the file that was exported'),
    ('parameters.npz', lambda data: data + b' ', 'not the file that was exported'),
    ('vocabulary.json', None, 'no such file; the export is not whole'),
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
  code, err = said_by([f'--export={copy}', f'--features=image={features}'], capsys)
  assert (code, err.count('\n')) == (1, 1)
  assert re.match(f'error: {copy}.*{message}', err)


def test_another_jax(folder, features, capsys, monkeypatch):
  argv = [f'--export={folder}', f'--features=image={features}']
  with monkeypatch.context() as patch:
    patch.setattr(serve.jax_export, 'maximum_supported_calling_convention_version', 9)
    code, err = said_by(argv, capsys)
  assert code == 1
  assert re.search(
    r'exported by jax .* \(calling convention 10\); jax .* runs 9 to 9: install', err
  )
  monkeypatch.setattr(jax, 'default_backend', lambda: 'rocm')
  code, err = said_by(argv, capsys)
  assert code == 1
  assert 'was exported for cpu, cuda, tpu, not rocm' in err


@pytest.mark.parametrize(
  ('given', 'message'),
  [
    ('motion=DIR', 'the model reads the streams image: image=FOLDER'),
    ('image=DIR,motion=DIR', 'the model reads the streams image: image=FOLDER'),
    ('DIR', 'the model reads the streams image: image=FOLDER'),
    ('image=/nowhere', '--features: /nowhere: no such folder'),
  ],
)
def test_wrong_folders(given, message, folder, features, capsys):
  flag = f'--features={given.replace("DIR", str(features))}'
  code, err = said_by([f'--export={folder}', flag], capsys)
  assert code == 1
  assert message in err


@pytest.mark.parametrize(
  ('array', 'message'),
  [
    (np.zeros((8,)), r'it has shape \(8,\), the model was made for \(None, 8\)'),
    (np.zeros((2, 7)), r'it has shape \(2, 7\)'),
    (np.zeros((0, 8)), 'it is empty'),
    (np.full((2, 8), np.nan), 'it holds NaN'),
    (np.full((2, 8), 1e6), 'too large for float16'),
    (np.full((2, 8), 'x'), 'it holds <U1, not numbers'),
    (None, 'no such file'),
  ],
)
def test_wrong_features(array, message, folder):
  (stream,) = json.loads((folder / 'manifest.json').read_text())['streams']
  with pytest.raises(serve.Refused, match=message):
    serve.check(array, stream)
