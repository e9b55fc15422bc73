"""Which checkpoints that can't be read are damaged, and which are not."""

import errno

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import Mesh

from tests.vidcap_jax.checkpoints.test_checkpoint import restore, save
from vidcap_jax.errors import DataError, UserError

META = {'config': {'seed': 1}, 'progress': {'best_score': None}}


def mesh_of(devices: int) -> Mesh:
  return Mesh(np.array(jax.devices()[:devices]).reshape(devices, 1), ('data', 'model'))


def without_meta(path):
  (path / 'meta' / 'metadata').write_text('{"config": ')


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def unfollowable(pattern):
  """Makes files that nobody can open, not even root: links to themselves."""

  def apply(path):
    files = [file for file in path.rglob(pattern) if file.is_file()]
    assert files
    for file in files:
      file.unlink()
      file.symlink_to(file)

  return apply


@pytest.mark.parametrize('pattern', ['metadata', 'manifest.ocdbt', '*[0-9a-f]', 'commit*'])
def test_files_that_cannot_be_opened_are_not_damaged(pattern, tmp_path, capsys):
  save(tmp_path, {5: None, 9: None})
  unfollowable(pattern)(tmp_path / '9')
  if pattern == 'commit*':
    without_meta(tmp_path / '9')
  with pytest.raises(UserError, match=r'/9 .*symbolic links'):
    restore(tmp_path)
  assert names(tmp_path) == ['5', '9']
  assert capsys.readouterr().err == ''


@pytest.mark.parametrize(
  'error',
  [
    OSError(errno.ESTALE, 'Stale file handle'),
    PermissionError(errno.EACCES, 'Permission denied'),
    MemoryError(),
    ValueError('RESOURCE_EXHAUSTED: Error opening "zarr" driver [tensorstore_spec={}]'),
    jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory'),
  ],
)
def test_errors_that_are_no_sign_of_damage(error, tmp_path, monkeypatch):
  save(tmp_path, {5: None})

  def fail(*args, **kwargs):
    raise error

  monkeypatch.setattr(ocp.Checkpointer, 'restore', fail)
  with pytest.raises((UserError, jax.errors.JaxRuntimeError)) as raised:
    restore(tmp_path)
  assert not isinstance(raised.value, DataError)
  assert 'tensorstore_spec' not in str(raised.value)
  assert names(tmp_path) == ['5']


def test_a_folder_that_cannot_be_listed_is_not_empty(tmp_path):
  (tmp_path / 'xe').symlink_to(tmp_path / 'xe')
  with pytest.raises(OSError, match='symbolic links'):
    restore(tmp_path / 'xe')
