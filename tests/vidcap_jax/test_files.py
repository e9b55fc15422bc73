"""Text files on disks and in an object store, and the messages for disks that fail."""

import errno
import json
import os

import pytest
from etils import epath

from tests import tiny
from vidcap_jax import files
from vidcap_jax.checkpoints import restore
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.training import experiment, saved_config


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
  path = tmp_path / 'stages.json'
  files.write_json(path, {'a': 'é'})
  assert path.read_text() == '{\n "a": "\\u00e9"\n}\n'
  files.write_json(path, {'a': 'é'}, ensure_ascii=False)
  assert json.loads(path.read_text(encoding='utf-8')) == {'a': 'é'}
  with pytest.raises(TypeError):
    files.write_json(path, {'a': object()})
  assert json.loads(path.read_text(encoding='utf-8')) == {'a': 'é'}
  assert [p.name for p in tmp_path.iterdir()] == ['stages.json']


def test_links_and_pipes_are_written_to(tmp_path):
  """A device such as /dev/stdout too, which is a pipe here."""
  target, link, pipe = (tmp_path / name for name in ('target.json', 'link.json', 'pipe'))
  target.write_text('old')
  link.symlink_to(target.name)
  files.check_output('--json', link)
  files.write_text(link, 'new')
  assert (link.is_symlink(), target.read_text()) == (True, 'new')
  os.mkfifo(pipe)
  files.check_output('--json', pipe)  # does not wait for a reader
  reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
  files.write_text(pipe, 'text')
  assert os.read(reader, 9) == b'text'
  os.close(reader)
  assert pipe.is_fifo()


def test_no_other_file_is_touched(tmp_path):
  (tmp_path / 'out.partial').write_text('mine')
  files.write_text(tmp_path / 'out.json', 'text')
  assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
    'out.partial': 'mine',
    'out.json': 'text',
  }


def test_a_locked_folder_is_refused(tmp_path, bucket):
  folder = tmp_path / 'work'
  with files.locked(folder):
    again = files.locked(folder)
    with pytest.raises(UserError, match='work: another process is training there'):
      again.__enter__()
    assert [path.name for path in folder.iterdir()] == [files.LOCK]
  with files.locked(folder):
    pass
  for _ in range(2):  # nothing can be locked there
    with files.locked(epath.Path('gs://runs/one')):
      assert bucket.names() == []


def test_an_error_leaves_no_folder_that_holds_only_the_lock(tmp_path):
  with pytest.raises(UserError), files.locked(tmp_path / 'new' / 'work'):
    raise UserError('batch_size')
  assert list(tmp_path.iterdir()) == []
  work = tmp_path / 'work'
  work.mkdir()  # by the user
  with pytest.raises(UserError), files.locked(work):
    raise UserError('batch_size')
  assert work.is_dir()


def test_an_empty_path_to_read():
  files.check_input('--videos', 'a', 'a folder')
  with pytest.raises(UserError, match='--videos=: an empty path.*a folder'):
    files.check_input('--videos', '', 'a folder')


def test_what_a_path_to_read_names(tmp_path):
  (file := tmp_path / 'a.pth').touch()
  files.check_input('--weights', file, 'weights', 'file')
  files.check_input('--pairs', tmp_path, 'pairs', 'folder')
  cases = [
    (tmp_path, 'file', 'folder, not a file.*weights'),
    (file, 'folder', 'file, not a folder.*weights'),
    (tmp_path / 'gone', 'file', 'gone: no such file.*weights'),
    ('~/gone.pth', 'file', '~/gone.pth: no such file.*HOME'),
  ]
  for path, kind, words in cases:
    with pytest.raises(UserError, match=f'--weights=.*{words}'):
      files.check_input('--weights', path, 'weights', kind)


def test_absolute_paths(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  assert files.absolute('work') == epath.Path(tmp_path / 'work')
  assert files.absolute('gs://runs/one') == epath.Path('gs://runs/one')


def test_error_names_damaged_json(tmp_path):
  (tmp_path / 'stages.json').write_text('{"xe": {"ste')
  with pytest.raises(DataError, match='stages.json: damaged'):
    restore.finished_stages(tmp_path)


def test_config_and_stages_in_a_bucket(bucket):
  workdir = epath.Path('gs://runs/two')
  config = tiny.get_config('data')
  saved_config.check_config(config, workdir)
  assert json.loads((workdir / 'config.json').read_text())['data']['dir'] == 'data'
  files.write_json(workdir / 'stages.json', {'xe': {'steps': 3}})
  assert restore.finished_stages(workdir) == {'xe': {'steps': 3}}
  (workdir / 'checkpoints' / 'xe' / '3').mkdir(parents=True)
  config.mesh.model = 2  # other devices, the same run
  saved_config.check_config(config, workdir)
  config.seed = 1
  with pytest.raises(DataError, match='gs://runs/two .*\n.*config.seed'):
    saved_config.check_config(config, workdir)
  assert bucket.names() == ['/runs/two/config.json', '/runs/two/stages.json']


@pytest.mark.parametrize(
  ('number', 'message'),
  [
    (errno.ENOSPC, "No space left on device: '/w/x'.*resume"),
    (errno.EROFS, 'Read-only file system.*writable.*--workdir'),
    (errno.EACCES, 'Permission denied'),
  ],
)
def test_disk_errors_become_user_errors(number, message):
  with pytest.raises(UserError, match=message), files.disk_errors():
    raise OSError(number, os.strerror(number), '/w/x')


@pytest.mark.parametrize(
  ('flag', 'number', 'message'),
  [
    ('--output', errno.EROFS, "'/w/x'.*writable.*--output$"),
    ('--output', errno.ENOSPC, "'/w/x'.*space$"),
    (None, errno.EROFS, "'/w/x'.*writable$"),
  ],
)
def test_only_runs_in_a_workdir_can_resume(flag, number, message):
  with pytest.raises(UserError, match=message), files.disk_errors(flag):
    raise OSError(number, os.strerror(number), '/w/x')


@pytest.mark.parametrize(
  ('path', 'folder', 'reason'),
  [
    ('file/x.json', False, '{}/file .Not a directory'),
    ('file/deep/er', True, '{}/file .Not a directory'),
    ('new/x.json', False, '{}/new .No such file or directory'),
    ('', False, '{} .Is a directory'),
  ],
)
def test_outputs_that_cannot_be_written(path, folder, reason, tmp_path):
  (tmp_path / 'file').write_text('kept')
  whole = tmp_path / path
  message = f'^--json={whole}: .*{reason.format(tmp_path)}'
  with pytest.raises(UserError, match=message):
    files.check_output('--json', whole, folder)


def test_check_output_changes_nothing(tmp_path, bucket):
  (tmp_path / 'file').write_text('kept')
  for name in ('file', 'x.json'):
    files.check_output('--json', tmp_path / name)
  files.check_output('--output', tmp_path / 'deep' / 'er', folder=True)
  files.check_output('--output', 'gs://runs/eval', folder=True)
  assert [path.name for path in tmp_path.iterdir()] == ['file']
  assert (tmp_path / 'file').read_text() == 'kept'
  assert bucket.names() == []


def test_other_errors_are_raised_unchanged():
  with pytest.raises(FileNotFoundError), files.disk_errors():
    raise FileNotFoundError(errno.ENOENT, 'No such file', 'x')


def test_a_workdir_that_cannot_be_made(tmp_path):
  (tmp_path / 'file').write_text('')
  with pytest.raises(UserError, match='Not a directory'), files.disk_errors():
    experiment.run(tiny.get_config('data'), epath.Path(tmp_path / 'file' / 'work'), None)


@pytest.mark.parametrize('folder', [True, False])
def test_an_empty_path_is_not_the_current_folder(folder, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(UserError, match='--json=: an empty path'):
    files.check_output('--json', '', folder)
