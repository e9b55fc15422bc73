"""For every test: eight CPU devices, no silent rank promotion, strict dtypes on request."""

import atexit
import os
import pathlib
import shutil
import sys
import tempfile

from vidcap_jax.features import video_folder

# Both must be set before jax is first imported. A test run shares its machine: one thread per
# operation is enough for arrays this small, and eight devices would otherwise fight over cores.
os.environ.setdefault('JAX_PLATFORMS', 'cpu')
os.environ['XLA_FLAGS'] = ' '.join(
  [
    os.environ.get('XLA_FLAGS', ''),
    '--xla_force_host_platform_device_count=8',
    '--xla_cpu_multi_thread_eigen=false',
    '--xla_backend_optimization_level=0',  # compiling takes far longer than what is compiled
  ]
).strip()
# Equal programs are compiled once in a test run, in its workers and subprocesses too.
if 'PYTEST_XDIST_WORKER' not in os.environ:
  os.environ['JAX_COMPILATION_CACHE_DIR'] = tempfile.mkdtemp(prefix='vidcap_jax_tests_')
  atexit.register(shutil.rmtree, os.environ['JAX_COMPILATION_CACHE_DIR'], ignore_errors=True)
os.environ['JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS'] = '0.3'
os.environ['JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES'] = '-1'
# For what tests share, whichever way pytest is started.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import hypothesis
import jax
import numpy as np
import pytest
from absl import flags
from etils.epath.backend import fsspec_backend

from data_prep.synthetic import render, shapes
from tests import tiny
from tests import workspace as workspaces
from tests.bucket import Bucket
from tests.building import ROWS, values
from vidcap_jax.checkpoints import restore
from vidcap_jax.distributed import mesh
from vidcap_jax.training import ledger

# grain's worker processes read absl flags, which nothing parses under pytest.
flags.FLAGS.mark_as_parsed()

jax.config.update('jax_numpy_rank_promotion', 'raise')

# How long an example takes says how busy the machine is, not whether it is right.
hypothesis.settings.register_profile('vidcap_jax', deadline=None)
hypothesis.settings.load_profile('vidcap_jax')


@pytest.fixture
def strict_dtypes():
  """Runs the test under strict dtype promotion: a silent bfloat16 to float32 step is an error."""
  with jax.numpy_dtype_promotion('strict'):
    yield


@pytest.fixture
def bucket(monkeypatch) -> Bucket:
  """What ``gs://`` is in the test."""
  made = Bucket()
  monkeypatch.setattr(type(fsspec_backend), 'fs', lambda self, path: made)
  return made


@pytest.fixture(scope='session')
def tiny_data(tmp_path_factory) -> str:
  """The data set of ``tests/tiny.py``."""
  return tiny.build(tmp_path_factory.mktemp('tiny') / 'source')


@pytest.fixture(scope='session')
def tiny_run(tiny_data, tmp_path_factory) -> pathlib.Path:
  """The workdir of a finished run of ``tests/tiny.py``; beside it ``shots``, its earlier states."""
  folder = tmp_path_factory.mktemp('run')
  workdir, shots = folder / 'whole', folder / 'shots'
  moments = {('train', 3), ('saving', 6), ('val', 16), ('trained', 0)}
  with (
    tiny.without_java(),
    pytest.MonkeyPatch.context() as patch,
    tiny.copied_at(workdir, shots, moments),
  ):
    patch.setattr(ledger, 'BEAT_SECONDS', 0.05)  # so that each state has a heartbeat of its own
    return tiny.run(tiny.get_config(tiny_data), workdir)


@pytest.fixture(scope='session')
def restored(tiny_run) -> restore.Restored:
  """The best checkpoint of ``tiny_run``."""
  return restore.restore(restore.find_checkpoint(str(tiny_run)), mesh.make_mesh())


@pytest.fixture
def source(tmp_path):
  """Annotations and one stream of five videos, with (n, 4) frames for video n."""
  lines = ['video_id,caption,split'] + [','.join(row) for row in ROWS]
  (tmp_path / 'clips.csv').write_text('\n'.join(lines))
  (tmp_path / 'image').mkdir()
  for n in range(1, 6):
    np.save(tmp_path / 'image' / f'v{n}.npy', values(f'v{n}', (n, 4)))
  return tmp_path


@pytest.fixture(scope='session')
def clips(tmp_path_factory) -> pathlib.Path:
  folder = tmp_path_factory.mktemp('clips')
  for clip in shapes.plan(10, seed=3)[:4]:
    render.write(clip, folder / f'{clip.video_id}.mp4')
  return folder


@pytest.fixture
def paths(clips):
  return video_folder.find_videos(clips)


@pytest.fixture(scope='session')
def workspace(tmp_path_factory) -> pathlib.Path:
  """The folder of ``tests/workspace.py``."""
  folder = tmp_path_factory.mktemp('workspace')
  workspaces.build(folder)
  return folder


@pytest.fixture
def inside(workspace, monkeypatch) -> pathlib.Path:
  """The same, as the working folder."""
  monkeypatch.chdir(workspace)
  return workspace
