"""A Dask cluster gives what the local programs give, byte for byte, also if its workers die."""

import json
import multiprocessing
import os
import pathlib
import signal

import numpy as np
import pytest

from data_prep import apache_beam, build, dask_engine, extract
from tests import video_files
from tests.building import files_below
from vidcap_jax.features import extract_folder, extractors, video_folder
from vidcap_jax.features.formats.folder import FolderReader
from vidcap_jax.features.workers import Died

dask = pytest.importorskip('dask', reason='the extra "dask" is not installed')
distributed = pytest.importorskip('distributed', reason='the extra "dask" is not installed')

STREAMS = 'image:random_sequence@every=5,sound:random_sound'


@pytest.fixture(scope='module')
def videos(tmp_path_factory) -> pathlib.Path:
  return video_files.write_folder(tmp_path_factory.mktemp('videos'))


@pytest.fixture(scope='module')
def cluster():
  """Two worker processes; each is started again when it dies."""
  # By default Dask gives BLAS one thread, with which the last digits of a product may differ.
  with (
    dask.config.set({'distributed.nanny.pre-spawn-environ': {}}),
    distributed.LocalCluster(
      n_workers=2, threads_per_worker=1, dashboard_address=':0', memory_limit=0
    ) as cluster,
  ):
    yield cluster


@pytest.fixture(scope='module')
def engine(cluster) -> str:
  return cluster.scheduler_address.replace('tcp://', 'dask://')


@pytest.fixture
def client(cluster, engine):
  with dask_engine.connect(engine) as client:
    yield client


@pytest.fixture(scope='module')
def features(videos, tmp_path_factory) -> pathlib.Path:
  """Features extracted in this process."""
  out = tmp_path_factory.mktemp('features')
  flags = [f'--videos={videos}', f'--streams={STREAMS}', f'--output={out}', '--pool=threads']
  assert extract.main(flags) == 1
  return out


def assert_same_features(one: pathlib.Path, other: pathlib.Path) -> None:
  reports = [json.loads((folder / 'failures.json').read_text()) for folder in (one, other)]
  assert reports[0] == reports[1]  # in the order of completion, which varies
  first, second = files_below(one), files_below(other)
  assert first.keys() == second.keys()
  assert [name for name in first if first[name] != second[name]] in ([], ['failures.json'])


class DyingReader(FolderReader):
  """Reads features, but kills a worker at v2 if the folder has a file named ``kill``."""

  def read(self, name: str) -> np.ndarray:
    kill = self.path / 'kill'
    if name == 'v2' and kill.exists() and multiprocessing.parent_process():
      kill.unlink()
      os.kill(os.getpid(), signal.SIGKILL)
    return super().read(name)


def die_or_return(value: int) -> int:
  if value < 0:
    os.kill(os.getpid(), signal.SIGKILL)
  return value


def open_missing(path: str) -> None:
  pathlib.Path(path).read_bytes()


def test_features_are_the_same(videos, features, engine, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  flags = [f'--engine={engine}', f'--videos={videos}', f'--streams={STREAMS}', '--output=relative']
  assert apache_beam.main(['extract', *flags]) == 1
  assert_same_features(features, tmp_path / 'relative')


def test_features_are_the_same_when_all_workers_are_killed(videos, features, client, tmp_path):
  named = extract.parse_streams(STREAMS)
  plan = extract_folder.plan_extraction(
    video_folder.find_videos(videos), extractors.describe_all(named, {}), tmp_path
  )

  def kill_after_first():
    results = dask_engine.run_jobs(client, plan)
    yield next(results)
    for process in client.run(os.getpid).values():
      os.kill(process, signal.SIGKILL)
    yield from results

  outcome = extract_folder.collect(plan, kill_after_first())
  assert sorted(outcome.extracted) == [f'v{i}' for i in range(5)]
  assert_same_features(features, tmp_path)


def test_records_are_the_same_when_a_worker_is_killed(features, engine, tmp_path):
  rows = [
    {'video_id': f'v{i}', 'split': 'val' if i == 4 else 'train', 'caption': f'a cat of {i} lives'}
    for i in range(5)
  ]
  annotations = tmp_path / 'captions.jsonl'
  annotations.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  flags = [
    '--format=jsonl',
    f'--annotations={annotations}',
    f'--features=image={features}/image,sound={features}/sound',
    f'--readers=image={__name__}:DyingReader',
    *('--optional=sound', '--min_count=1', '--name=cats', '--shard_mb=0.003'),
  ]
  assert build.main([*flags, f'--output={tmp_path / "local"}']) == 0
  kill = features / 'image' / 'kill'
  kill.touch()
  out = tmp_path / 'cluster'
  assert apache_beam.main(['build', f'--engine={engine}', *flags, f'--output={out}']) == 0
  assert not kill.exists()
  local = files_below(tmp_path / 'local')
  assert sum('train.array_record' in name for name in local) > 1
  assert files_below(out) == local


def test_a_job_that_kills_its_workers_does_not_stop_the_others(client, cluster, monkeypatch):
  monkeypatch.setattr(cluster.scheduler, 'allowed_failures', 0)
  jobs = [(f'job {i}', (i,)) for i in (0, -1, 1, 2, 3)]
  results = dict(dask_engine.run(client, die_or_return, jobs))
  assert isinstance(results.pop('job -1'), Died)
  assert results == {f'job {i}': i for i in range(4)}


def test_a_file_that_a_worker_lacks_is_named(client):
  jobs = [('v7', ('/missing/v7.mp4',))]
  with pytest.raises(dask_engine.EngineError, match=r'v7: .*/missing/v7\.mp4'):
    list(dask_engine.run(client, open_missing, jobs))


def test_a_cluster_without_workers_is_an_error(monkeypatch):
  monkeypatch.setattr(dask_engine, '_WORKERS_S', 0.1)
  monkeypatch.setattr(dask_engine, '_POLL_S', 0.1)
  with (
    distributed.LocalCluster(n_workers=0, dashboard_address=':0') as cluster,
    dask_engine.connect(cluster.scheduler_address.replace('tcp', 'dask')) as client,
  ):
    jobs = [('job', (1,))]
    with pytest.raises(dask_engine.EngineError, match=f'{cluster.scheduler_address}: no worker'):
      list(dask_engine.run(client, die_or_return, jobs))


def test_a_machine_without_this_package_is_named(engine, monkeypatch):
  def raise_missing(*_):
    raise ModuleNotFoundError("No module named 'data_prep'")

  monkeypatch.setattr(distributed.Client, 'run_on_scheduler', raise_missing)
  address = engine.replace('dask', 'tcp')
  with (
    pytest.raises(dask_engine.EngineError, match=f'{address}: .*data_prep'),
    dask_engine.connect(engine),
  ):
    pass


@pytest.mark.parametrize('address', ['dask://127.0.0.1:1', 'tcp://127.0.0.1:8786', 'dask://host'])
def test_a_wrong_address_is_named(address, videos, tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(dask_engine, '_CONNECT_S', 1)
  out = tmp_path / 'out'
  flags = [f'--engine={address}', f'--videos={videos}', f'--output={out}']
  assert apache_beam.main(['extract', *flags]) == 1
  assert f'--engine={address}' in capsys.readouterr().err
  assert not out.exists()


def test_flags_of_beam_do_not_go_with_an_engine(videos, tmp_path, capsys):
  flags = ['--engine=dask://127.0.0.1:1', f'--videos={videos}', f'--output={tmp_path}']
  assert apache_beam.main(['extract', *flags, '--', '--runner=FlinkRunner']) == 1
  assert '--runner=FlinkRunner' in capsys.readouterr().err
