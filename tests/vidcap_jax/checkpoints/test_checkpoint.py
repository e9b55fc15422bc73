"""Checkpoints round-trip, and damaged ones are skipped."""

import contextlib
import re
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.errors import DataError, UserError

META = {'config': {'seed': 1}, 'progress': {'best_score': None}}


def mesh_of(devices: int) -> Mesh:
  return Mesh(np.array(jax.devices()[:devices]).reshape(devices, 1), ('data', 'model'))


def trees(step: int, devices: int = 1):
  """Parameters and optimiser state that depend on the step, replicated on so many devices."""
  everywhere = NamedSharding(mesh_of(devices), PartitionSpec())
  params = {'dense': {'kernel': jnp.arange(600.0).reshape(20, 30) + step, 'bias': jnp.ones(30)}}
  training = {'step': jnp.int32(step), 'moments': (jnp.full((20, 30), step * 0.5), jnp.zeros(3))}
  return jax.device_put((params, training), everywhere)


def save(folder, scores: dict[int, float | None], keep: int = 5, devices: int = 1) -> None:
  manager = checkpoint.open_manager(folder, keep)
  for step, score in scores.items():
    params, training = trees(step, devices)
    checkpoint.save(manager, step, params, training, META | {'step': step}, score)
  checkpoint.finish(manager)


def restore(folder, devices: int = 1):
  everywhere = NamedSharding(mesh_of(devices), PartitionSpec())
  return checkpoint.restore_latest(
    folder, *checkpoint.abstract(trees(0), everywhere), lambda _: None
  )


def assert_is(restored, step: int, devices: int = 1):
  found, params, training, meta = restored
  assert found == meta['step'] == step
  expected = trees(step)
  assert jax.tree.structure((params, training)) == jax.tree.structure(expected)
  for a, b in zip(jax.tree.leaves((params, training)), jax.tree.leaves(expected), strict=True):
    np.testing.assert_array_equal(a, b, strict=True)
    assert len(a.sharding.device_set) == devices
  assert {k: meta[k] for k in META} == META


def test_round_trip(tmp_path):
  assert restore(tmp_path / 'nothing') is None
  save(tmp_path / 'stage', {3: None, 7: 0.25})
  assert_is(restore(tmp_path / 'stage'), 7)
  assert checkpoint.read_meta(tmp_path / 'stage' / '3')['step'] == 3
  params = checkpoint.read_params_as_saved(tmp_path / 'stage' / '3')
  np.testing.assert_array_equal(params['dense']['kernel'], trees(3)[0]['dense']['kernel'])


@pytest.mark.parametrize(('written', 'read'), [(8, 1), (1, 8), (8, 2)])
def test_another_number_of_devices(written, read, tmp_path):
  save(tmp_path, {4: None}, devices=written)
  assert_is(restore(tmp_path, devices=read), 4, devices=read)


def test_best_is_kept_beside_latest(tmp_path):
  save(tmp_path, {1: 0.2, 2: 0.5, 3: None, 4: 0.1, 5: float('nan'), 6: None}, keep=1)
  assert checkpoint.steps(tmp_path) == [2, 6]
  assert checkpoint.best_step(tmp_path) == 2
  assert_is(restore(tmp_path), 6)


def test_no_score_or_nan_is_never_best(tmp_path):
  save(tmp_path, {1: float('nan'), 2: -0.5, 3: float('inf'), 4: None})
  assert checkpoint.best_step(tmp_path) == 2
  save(tmp_path / 'none', {1: None, 2: float('nan')})
  assert checkpoint.best_step(tmp_path / 'none') == 2  # the latest
  assert checkpoint.best_step(tmp_path / 'nothing') is None


def test_the_best_of_equal_scores_is_the_one_that_is_kept(tmp_path):
  save(tmp_path, {1: 0.5, 2: 0.5, 3: 0.1}, keep=1)
  (best,) = set(checkpoint.steps(tmp_path)) - {3}
  assert checkpoint.best_step(tmp_path) == best


@contextlib.contextmanager
def files_of_at_most(size):
  """As on a full disk: writing more fails, whatever library does it."""
  before = resource.getrlimit(resource.RLIMIT_FSIZE)
  resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
  try:
    yield
  finally:
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')  # of its threads
@pytest.mark.parametrize('size', [200, 300_000])  # neither meta nor arrays; meta alone
def test_a_full_disk_leaves_earlier_checkpoints_intact(size, tmp_path):
  noise = jax.random.normal(jax.random.key(0), (1000, 1000))  # can't be compressed
  save(tmp_path, {1: 0.5, 2: 0.1}, keep=1)
  manager = checkpoint.open_manager(tmp_path, 1)
  _, training = trees(3)

  def write():
    checkpoint.save(manager, 3, {'noise': noise}, training, META, 0.9)
    checkpoint.finish(manager)

  with files_of_at_most(size), pytest.raises(UserError) as raised:
    write()
  assert 'File too large' in str(raised.value)
  assert f'{tmp_path} (' in str(raised.value)
  assert checkpoint.steps(tmp_path) == [1, 2]
  assert checkpoint.best_step(tmp_path) == 1
  assert_is(restore(tmp_path), 2)
  save(tmp_path, {3: 0.2}, keep=1)  # with room again
  assert checkpoint.steps(tmp_path) == [1, 3]


def empty(path):
  for file in [p for p in path.rglob('*') if p.is_file()]:
    file.unlink()
  for folder in sorted((p for p in path.rglob('*')), reverse=True):
    folder.rmdir()


def half_written(path):
  (path / '_CHECKPOINT_METADATA').unlink()


def without_parameters(path):
  for file in (path / 'params').rglob('*'):
    if file.is_file():
      file.unlink()


def truncated(path):
  """Every data file ends in its middle, as after a full disk."""
  for file in path.rglob('*'):
    if file.is_file() and file.name != '_CHECKPOINT_METADATA':
      file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def zeroed(path):
  """Blocks that never reached the disk, as after a power cut."""
  for file in path.rglob('*'):
    if file.is_file() and file.name != '_CHECKPOINT_METADATA':
      file.write_bytes(bytes(file.stat().st_size))


def without_meta(path):
  (path / 'meta' / 'metadata').write_text('{"config": ')


DAMAGE = [empty, half_written, without_parameters, truncated, zeroed, without_meta]


@pytest.mark.parametrize('damage', DAMAGE)
def test_a_damaged_newest_checkpoint_is_skipped(damage, tmp_path, capsys):
  save(tmp_path, {5: None, 9: None})
  damage(tmp_path / '9')
  assert_is(restore(tmp_path), 5)
  message = capsys.readouterr().err
  assert message.count('\n') == 1
  assert message.startswith(f'checkpoint {tmp_path / "9"} ')
  assert message.endswith(' 9.broken\n')
  # Its step can be saved again.
  save(tmp_path, {9: None})
  assert_is(restore(tmp_path), 9)
  assert capsys.readouterr().err == ''


def test_no_checkpoint_was_ever_complete(tmp_path, capsys):
  """As after a kill during the first save: training starts anew, as nothing is lost."""
  save(tmp_path, {5: 0.1, 9: 0.2})
  empty(tmp_path / '5')
  half_written(tmp_path / '9')
  assert restore(tmp_path) is None
  lines = capsys.readouterr().err.splitlines()
  assert all(str(tmp_path / step) in line for step, line in zip('95', lines, strict=True))
  assert checkpoint.best_step(tmp_path) is None


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_all_complete_checkpoints_are_damaged(tmp_path, capsys):
  """Starting anew would overwrite the logs of the earlier training: the user has to decide."""
  save(tmp_path, {5: 0.1, 7: 0.2, 9: 0.2})
  truncated(tmp_path / '5')
  half_written(tmp_path / '7')
  zeroed(tmp_path / '9')
  for _ in range(2):  # the same command doesn't start anew either
    with pytest.raises(UserError, match=rf'/9 .*/5 .*{tmp_path} '):
      restore(tmp_path)
  assert names(tmp_path) == ['5', '7', '9']
  assert capsys.readouterr().err == ''


@pytest.mark.parametrize('main_finds', [True, False])
def test_the_main_process_decides_what_is_damaged(main_finds, tmp_path, monkeypatch, capsys):
  save(tmp_path, {5: None, 9: None})
  if not main_finds:
    truncated(tmp_path / '9')
  answers = iter([9, main_finds, 5, False, False, True])
  monkeypatch.setattr(checkpoint.mesh, 'from_main', lambda value: next(answers))
  if main_finds:
    assert_is(restore(tmp_path), 5)
    assert re.search('/9 .*main process.* 9.broken', capsys.readouterr().err)
  else:
    with pytest.raises(UserError, match='/9 .*main process'):
      restore(tmp_path)
    assert names(tmp_path) == ['5', '9']


def test_a_damaged_score_is_never_best(tmp_path):
  save(tmp_path, {1: 0.9, 2: 0.3})
  (tmp_path / '1' / 'metrics' / 'metrics').write_text('')
  assert checkpoint.best_step(tmp_path) == 2


def test_a_checkpoint_of_another_model_is_not_reported_as_damaged(tmp_path):
  save(tmp_path, {5: None})

  def check(meta):
    raise DataError(f'trained on other data, step {meta["step"]}')

  everywhere = NamedSharding(mesh_of(1), PartitionSpec())
  with pytest.raises(DataError, match='other data, step 5'):
    checkpoint.restore_latest(tmp_path, *checkpoint.abstract(trees(0), everywhere), check)
  assert checkpoint.steps(tmp_path) == [5]


def test_read_errors_name_the_folder(tmp_path):
  with pytest.raises(DataError, match=f'{tmp_path} '):
    checkpoint.read_meta(tmp_path)
  save(tmp_path, {5: None})
  truncated(tmp_path / '5')
  with pytest.raises(DataError, match=f'{tmp_path / "5"} '):
    checkpoint.read_meta(tmp_path / '5')
  with pytest.raises(DataError, match=f'{tmp_path / "5"} '):
    checkpoint.read_params(tmp_path / '5', checkpoint.abstract(trees(0)[0], None))
